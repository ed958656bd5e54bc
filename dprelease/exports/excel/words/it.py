"""The texts of workbooks in Italian."""

DECIMAL = ","

WORDS = {
    "cover": "Copertina",
    "contents": "Indice",
    "notes": "Note",
    "annex": "Allegato",
    "table": "Tabella",
    "worksheet": "Foglio",
    "title": "Titolo",
    "column": "Colonna",
    "text": "Testo",
    "notes_title": "Segni, classi di qualità e note alle tabelle",
    "annex_title": "Dettagli tecnici (in inglese)",
    "one_table": "Questo foglio contiene una tabella.",
    "estimates": "Stime",
    "estimates_meaning": (
        "Queste stime hanno decimali e possono essere inferiori a 0. Servono per ulteriori "
        "calcoli. I dati ufficiali sono nel file {file}."
    ),
    "about": "Su questa pubblicazione",
    "publisher": "Pubblicato da: {text}",
    "contact": "Contatto: {text}",
    "licence": "Licenza: {text}",
    "period": "Periodo di riferimento: {text}",
    "area": "Territorio: {text}",
    "version": "Versione: {text}",
    "replaces": "Sostituisce: {text}",
    "methodology": "Metodologia: {text}",
    "protected": "Chi è protetto",
    "protected_rows": "Ogni record dei dati è protetto singolarmente.",
    "protected_ids": (
        "È protetto ciò che un «{id}» indica (per esempio una persona, una famiglia o un’impresa), "
        "con tutti i suoi record insieme."
    ),
    "limits": (
        "Per ogni «{id}» contano al massimo {groups} gruppi di una tabella e {rows} record per "
        "gruppo. Gli altri sono esclusi, perciò i numeri possono essere troppo bassi. Tabelle: "
        "{sheets}."
    ),
    "limits_of_all_rows": (
        "Per ogni «{id}» contano al massimo {total} record di una tabella. Gli altri sono "
        "esclusi, perciò i numeri possono essere troppo bassi. Tabelle: {sheets}."
    ),
    "guarantee": "Come funziona la protezione",
    "noise": (
        "Prima della pubblicazione ai numeri è stato aggiunto un rumore casuale. Nessun numero è "
        "esatto, e i numeri piccoli sono, in proporzione, meno sicuri di quelli grandi."
    ),
    "guess": (
        "Il rumore limita ciò che questi numeri rivelano su chiunque: chi ritiene un’affermazione "
        "su qualcuno probabile al {prior} % può ritenerla probabile al massimo al {posterior} % "
        "dopo aver letto tutti i numeri."
    ),
    "parameters": (
        "Si tratta di privacy differenziale con epsilon = {epsilon} e delta = {delta}; delta è "
        "all’incirca la probabilità che il limite non valga."
    ),
    "exact": "Pubblicato esattamente, senza rumore e fuori da questa protezione: {names}.",
    "reading": "Come leggere i numeri",
    "margin": (
        "Margine di errore: con una confidenza del {confidence} %, il numero senza rumore dista al "
        "massimo tanto dal numero pubblicato."
    ),
    "interval": (
        "Limiti inferiore e superiore: con una confidenza del {confidence} %, il numero senza "
        "rumore sta fra di essi."
    ),
    "classes": "Classi di qualità accanto ai numeri, e segni nelle celle senza numero:",
    "weak": "I numeri in corsivo grigio non sono affidabili. Non vanno citati.",
    "own_noise": (
        "I totali sono misurati separatamente, con rumore e limiti propri: la somma delle parti "
        "può differirne."
    ),
    "bounded": (
        "{tables}: i conteggi e le somme di queste tabelle possono non coincidere, anche senza "
        "rumore. I limiti si applicano a ogni tabella separatamente: un record escluso da una può "
        "contare in un’altra."
    ),
    "total_code": "Codice «{code}»: totale.",
    "further": "I dettagli tecnici sono nell’ultimo foglio, «{annex}».",
}
