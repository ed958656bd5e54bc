"""The texts of workbooks in Dutch."""

DECIMAL = ","

WORDS = {
    "cover": "Voorblad",
    "contents": "Inhoud",
    "notes": "Toelichting",
    "annex": "Bijlage",
    "table": "Tabel",
    "worksheet": "Werkblad",
    "title": "Titel",
    "row": "Rij",
    "in_all": "in totaal",
    "by": "naar {keys}",
    "column": "Kolom",
    "text": "Tekst",
    "notes_title": "Tekens, kwaliteitsklassen en toelichting op de tabellen",
    "annex_title": "Technische gegevens (in het Engels)",
    "one_table": "Dit werkblad bevat één tabel.",
    "estimates": "Schattingen",
    "estimates_meaning": (
        "Dit zijn schattingen, met decimalen, die lager dan 0 kunnen zijn. Gebruik ze alleen voor "
        "eigen sommen, bijvoorbeeld van meerdere gebieden. Neem losse cijfers en totalen uit het "
        "bestand {file}, waarin kleine cijfers iets zijn verhoogd en grote iets verlaagd."
    ),
    "official_meaning": (
        "Neem losse cijfers en totalen uit dit bestand. Alleen voor eigen sommen, bijvoorbeeld "
        "van meerdere gebieden, telt u de schattingen in het bestand {file} op: die zijn niet "
        "verhoogd of verlaagd."
    ),
    "about": "Over deze publicatie",
    "publisher": "Uitgever: {text}",
    "contact": "Contact: {text}",
    "licence": "Licentie: {text}",
    "period": "Verslagperiode: {text}",
    "area": "Gebied: {text}",
    "version": "Versie: {text}",
    "replaces": "Vervangt: {text}",
    "methodology": "Methodologie: {text}",
    "protected": "Wie beschermd is",
    "protected_rows": "Elk record van de gegevens is afzonderlijk beschermd.",
    "protected_ids": "Elke eenheid “{id}” is beschermd, met alle bijbehorende records samen.",
    "limits": (
        "Limiet per “{id}”: hoogstens {rows} per cel, in hoogstens {groups} van een tabel. Wat "
        "daarboven ligt, vervalt: aantallen kunnen te laag zijn, andere cijfers te laag of te "
        "hoog. Geen foutmarge dekt dit. Tabellen: {sheets}."
    ),
    "limits_of_all_rows": (
        "Limiet per “{id}”: hoogstens {total} van een tabel. Wat daarboven ligt, vervalt: "
        "aantallen kunnen te laag zijn, andere cijfers te laag of te hoog. Geen foutmarge dekt "
        "dit. Tabellen: {sheets}."
    ),
    "limits_of_people": (
        "Elke “{id}” telt in hoogstens {groups} van een tabel. Wat daarboven ligt, vervalt: "
        "aantallen kunnen te laag zijn. Geen foutmarge dekt dit. Tabellen: {sheets}."
    ),
    "guarantee": "Hoe de bescherming werkt",
    "noise": (
        "Aan de cijfers is vóór publicatie willekeurige ruis toegevoegd. Geen enkel cijfer is "
        "exact, en kleine cijfers zijn naar verhouding onzekerder dan grote."
    ),
    "guess": (
        "De ruis begrenst wat deze cijfers over iemand kunnen onthullen: wie een uitspraak over "
        "iemand voor {prior} % waarschijnlijk houdt, kan die na het lezen van alle cijfers voor "
        "hoogstens {posterior} % waarschijnlijk houden."
    ),
    "parameters": (
        "Dit is differentiële privacy met epsilon = {epsilon} en delta = {delta}; delta is "
        "ongeveer de kans dat de grens niet geldt."
    ),
    "exact": "Exact gepubliceerd, zonder ruis en buiten deze bescherming: {names}.",
    "reading": "Hoe de cijfers te lezen zijn",
    "margin": (
        "Foutmarge: met {confidence} % zekerheid wijkt het cijfer zonder ruis hoogstens zoveel af "
        "van het gepubliceerde cijfer."
    ),
    "interval": (
        "Onder- en bovengrens: met {confidence} % zekerheid ligt het cijfer zonder ruis ertussen."
    ),
    "range": (
        "Het interval van een cijfer loopt van de onder- tot de bovengrens, of van het cijfer min"
        " de foutmarge tot het cijfer plus de foutmarge."
    ),
    "parts": (
        "De ruis verschilt van cijfer tot cijfer. Daarom kan een deel groter zijn dan het geheel,"
        " en kunnen tabellen elkaar binnen hun intervallen tegenspreken."
    ),
    "misses": "Ongeveer 1 op de {one_in} intervallen bevat het cijfer zonder ruis niet.",
    "differ": (
        "Twee cijfers verschillen alleen duidelijk als hun intervallen elkaar niet overlappen."
    ),
    "sums": (
        "Als u cijfers optelt, is de foutmarge van de som meestal groter dan die van de cijfers."
    ),
    "negative": "Cijfers onder 0 komen door de ruis: lees ze als weinig of geen.",
    "raised": (
        "Kleine cijfers zijn iets verhoogd en grote iets verlaagd, zodat geen cijfer onder 0 ligt "
        "en alles optelt."
    ),
    "adjusted": (
        "“{column}” markeert cijfers die buiten hun interval zijn geplaatst zodat alles optelt, of "
        "zonder geheel getal vanaf 0 binnen hun marge. Citeer ze niet."
    ),
    "full_range": (
        "Het interval {low} tot {high} zegt niets: het is even breed als de grenzen van de "
        "waarden. Citeer het niet."
    ),
    "classes": "Kwaliteitsklassen naast de cijfers, en tekens in cellen zonder cijfer:",
    "weak": "Citeer cijfers in grijs cursief niet, hoogstens hun interval.",
    "own_noise": (
        "Totalen zijn apart bepaald, met eigen ruis en eigen limieten: de delen tellen niet "
        "altijd op tot het totaal."
    ),
    "bounded": (
        "{tables}: de aantallen en sommen van deze tabellen hoeven niet op te tellen, ook zonder "
        "ruis. De limieten gelten voor elke tabel apart: een record dat in de ene vervalt, kan in "
        "de andere tellen."
    ),
    "no_row": "bij deze cel hoort geen rij van de tabel.",
    "total_code": "Code “{code}”: totaal.",
    "further": "Technische gegevens staan op het laatste werkblad, “{annex}”.",
}
