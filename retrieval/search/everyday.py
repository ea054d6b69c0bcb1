"""English words that say how, when, who and how much, and never what: a table that lacks them lacks no subject."""

from __future__ import annotations

from typing import Final

EVERYDAY: Final = frozenset(
    """
    above across actual actually again ago ahead alive almighty almost alone along aloud already although always
    among amount another anybody anyhow anymore anyone anything anyway anywhere apart around aside asleep awake away
    awful back bad barely bear beautiful became because become becomes been before began begin behind being believe
    below beneath beside besides best better between beyond big bigger biggest bit blame blow body born both bother
    bottom bought boy break brief bring broad broke broken brought build busy buy call came cannot care careful
    carry catch caught certain certainly chance cheap check chose chosen clean clear clearly clever close closely
    come comes coming common complete completely could couple course cover crowd cry curious cut daily damage danger
    dare day deal dear decide deep deeply despite did die dies different difficult dirty does done doubt down dozen
    drag draw drive drop dull during dying each eager early easily easy eat edge effort eight either eleven else
    empty end enormous enough entire entirely especially even evening ever every everybody everyday everyone
    everything everywhere exact exactly except explain extra extremely eye face fair fairly fall familiar far fast
    fat fault favorite favourite fear feel feet fell felt few fewer fifth fifty fight fill final finally find fine
    finger finish first fit five floor fly follow foot force forever forget forgot former forth forty forward found
    four free fresh friend front full fully fun funny further gave gently get gets getting giant girl give given
    glad go goes gone good gorgeous got grab gradually great greatly grow guess guessed guesses guessing guy half
    hand handed handle hands handy hang happen happened happening happens happy hard hardly harm haste hate he head
    hear heard heart heavy held hello help her here herself hide high highly him himself his hit hold home honest
    hope horrible hot hour house however huge hundred hundreds hurry hurt idea ill imagine immediately important
    impossible indeed inside instead into it itself job join joke jump jumped jumping jumps just keen keep keeps
    kept kick kid kill kind kinds knew know known lack large largely last late lately later laugh lay lazy lead
    learn least leave led left leg less let lie life lift light like likely little live lives lock long longer look
    looks lose lost lot lots loud love low luck mad made main mainly make makes making man many mark matter may
    maybe mean means meant meet mere merely mess met middle might million mind mine minute miss mistake mix moment
    moments month more morning most mostly mother mouth move much must myself name namely narrow nasty near nearby
    nearly neat necessary neck need needed needs neither never nevertheless new next nice night nine nobody none
    nonsense noon nor normal normally nothing notice now nowhere obvious obviously odd off often okay old once one
    ones only onto open opposite or ordinary other others otherwise ought our ours ourselves out outside over own
    pace pain pair part partly past pay people perfect perhaps person pick piece place plain play please plenty
    point poor possible possibly pour prefer presence pretend pretty previous prior probably problem proper properly
    proud pull pure push put puts quick quickly quiet quietly quite raise ran rapid rare rarely rather reach read
    ready real really reason recent recently refuse regard relax remain remember remind remove repeat reply rest
    return rich rid ride right rise road roll room rough round rub run rush sad safe safely said sake same sat save
    saw say says scared sea second see seek seem seems seen sell send sense sent serious seriously seven several
    shake shall sharp she short should shout show shown shut sick side sight silly similar simple simply since sing
    single sit six size skill sleep slight slightly slip slow slowly small smart smile smooth soft sold solve some
    somebody somehow someone something sometimes somewhat somewhere soon sorry sort sound speak special spend spent
    split spot spread stand stare start stay steady steal step stick still stood stop strange strong stuck stupid
    such sudden suddenly suffer sure surely surprise sweet swift take taken takes taking talk tall taste teach tear
    tell ten tend terrible than thank themselves therefore thick thin thing things think third thirty those though
    thought thousand thousands three threw through throughout throw thus tie tight till time times tiny tired today
    together told tomorrow tonight too took top total totally touch touches tough toward towards tried trouble true
    truly trust truth try trying turn twelve twenty twice two typical ugly under understand unless unlike until
    unusual up upon upside us useful usual usually various vast very view voice wait wake walk want wants warm warn
    was waste watch water way weak wear week weird well went were whatever whenever wherever whether while whole
    whom whose why wide wild willing win wipe wise wish within without woman wonder wonderful wooden word worse
    worst worth wrong year yes yesterday yet young yours yourself
    """.split()
)
"""Pronouns, adverbs, numbers, and the commonest verbs and adjectives, beside the words that no search looks for."""
