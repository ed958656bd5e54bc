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
    "row": "Riga",
    "in_all": "in totale",
    "by": "per {keys}",
    "column": "Colonna",
    "text": "Testo",
    "notes_title": "Segni, classi di qualità e note alle tabelle",
    "annex_title": "Dettagli tecnici (in inglese)",
    "one_table": "Questo foglio contiene una tabella.",
    "estimates": "Stime",
    "estimates_meaning": (
        "Queste sono stime, con decimali, che possono essere inferiori a 0. Vanno usate solo per "
        "somme proprie, per esempio di più aree. I singoli numeri e i totali vanno presi dal file "
        "{file}, dove i numeri piccoli sono stati un po’ aumentati e quelli grandi un po’ "
        "ridotti."
    ),
    "official_meaning": (
        "I singoli numeri e i totali vanno presi da questo file. Solo per somme proprie, per "
        "esempio di più aree, si sommino le stime del file {file}: non sono state aumentate né "
        "ridotte."
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
    "protected_ids": "È protetta ogni unità «{id}», con tutti i suoi record insieme.",
    "limits": (
        "Limite per ogni «{id}»: al massimo {rows} per cella, in al massimo {groups} di una "
        "tabella. Ciò che lo supera è escluso: i conteggi possono essere troppo bassi, gli altri "
        "numeri troppo bassi o troppo alti. Nessun margine di errore copre questo. Tabelle: "
        "{sheets}."
    ),
    "limits_of_all_rows": (
        "Limite per ogni «{id}»: al massimo {total} di una tabella. Ciò che lo supera è escluso: "
        "i conteggi possono essere troppo bassi, gli altri numeri troppo bassi o troppo alti. "
        "Nessun margine di errore copre questo. Tabelle: {sheets}."
    ),
    "limits_of_people": (
        "Ogni «{id}» conta in al massimo {groups} di una tabella. Ciò che lo supera è escluso: i "
        "conteggi possono essere troppo bassi. Nessun margine di errore copre questo. Tabelle: "
        "{sheets}."
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
    "range": (
        "L’intervallo di un numero va dal limite inferiore a quello superiore, o dal numero meno "
        "il margine di errore al numero più questo margine."
    ),
    "parts": (
        "Il rumore varia da numero a numero. Perciò una parte può superare il tutto, e le tabelle"
        " possono contraddirsi entro i loro intervalli."
    ),
    "misses": "Circa 1 intervallo su {one_in} non contiene il numero senza rumore.",
    "differ": "Due numeri differiscono chiaramente solo se i loro intervalli non si sovrappongono.",
    "sums": "Se si sommano numeri, il margine di errore della somma è di solito maggiore dei loro.",
    "negative": "I numeri inferiori a 0 derivano dal rumore: vanno letti come pochi o nessuno.",
    "raised": (
        "I numeri piccoli sono stati un po’ aumentati e quelli grandi un po’ ridotti, perché "
        "nessuno sia inferiore a 0 e le somme tornino."
    ),
    "adjusted": (
        "«{column}» segnala i numeri spostati fuori dal loro intervallo perché le somme tornino, o "
        "senza un numero intero da 0 in su entro il loro margine. Non vanno citati."
    ),
    "full_range": (
        "L’intervallo da {low} a {high} non dice nulla: è ampio quanto i limiti dei valori. Non "
        "va citato."
    ),
    "classes": "Classi di qualità accanto ai numeri, e segni nelle celle senza numero:",
    "weak": "Dei numeri in corsivo grigio non va citato il numero, al massimo l’intervallo.",
    "own_noise": (
        "I totali sono misurati separatamente, con rumore e limiti propri: la somma delle parti "
        "può differirne."
    ),
    "bounded": (
        "{tables}: i conteggi e le somme di queste tabelle possono non coincidere, anche senza "
        "rumore. I limiti si applicano a ogni tabella separatamente: un record escluso da una può "
        "contare in un’altra."
    ),
    "no_row": "nessuna riga della tabella corrisponde a questa cella.",
    "total_code": "Codice «{code}»: totale.",
    "further": "I dettagli tecnici sono nell’ultimo foglio, «{annex}».",
}
