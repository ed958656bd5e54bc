"""The texts of workbooks in German."""

DECIMAL = ","

WORDS = {
    "cover": "Titelblatt",
    "contents": "Inhalt",
    "notes": "Hinweise",
    "annex": "Anhang",
    "table": "Tabelle",
    "worksheet": "Tabellenblatt",
    "title": "Titel",
    "row": "Zeile",
    "in_all": "insgesamt",
    "by": "nach {keys}",
    "column": "Spalte",
    "text": "Text",
    "notes_title": "Zeichen, Qualitätsklassen und Hinweise zu den Tabellen",
    "annex_title": "Technische Angaben (auf Englisch)",
    "one_table": "Dieses Blatt enthält eine Tabelle.",
    "estimates": "Schätzwerte",
    "estimates_meaning": (
        "Dies sind Schätzwerte mit Nachkommastellen, die unter 0 liegen können. Sie sind nur für "
        "eigene Summen bestimmt, etwa über mehrere Gebiete. Einzelne Zahlen und Summen stehen in "
        "der Datei {file}; dort wurden kleine Zahlen etwas erhöht und große etwas gesenkt."
    ),
    "official_meaning": (
        "Einzelne Zahlen und Summen sind aus dieser Datei zu entnehmen. Nur für eigene Summen, "
        "etwa über mehrere Gebiete, addieren Sie die Schätzwerte der Datei {file}: Sie wurden "
        "weder erhöht noch gesenkt."
    ),
    "about": "Zu dieser Veröffentlichung",
    "publisher": "Herausgeber: {text}",
    "contact": "Kontakt: {text}",
    "licence": "Lizenz: {text}",
    "period": "Berichtszeitraum: {text}",
    "area": "Gebiet: {text}",
    "version": "Version: {text}",
    "replaces": "Ersetzt: {text}",
    "methodology": "Methodik: {text}",
    "protected": "Wer geschützt ist",
    "protected_rows": "Jeder Datensatz ist für sich geschützt.",
    "protected_ids": (
        "Geschützt ist jede Einheit „{id}“ mit allen zugehörigen Datensätzen zusammen."
    ),
    "limits": (
        "Grenze je „{id}“: höchstens {rows} pro Zelle, in höchstens {groups} einer Tabelle. Was "
        "darüber liegt, fällt weg: Anzahlen können zu niedrig sein, andere Zahlen zu niedrig oder"
        " zu hoch. Keine Fehlerspanne deckt das ab. Tabellen: {sheets}."
    ),
    "limits_of_all_rows": (
        "Grenze je „{id}“: höchstens {total} einer Tabelle. Was darüber liegt, fällt weg: "
        "Anzahlen können zu niedrig sein, andere Zahlen zu niedrig oder zu hoch. Keine "
        "Fehlerspanne deckt das ab. Tabellen: {sheets}."
    ),
    "limits_of_people": (
        "Jede Einheit „{id}“ zählt in höchstens {groups} einer Tabelle. Was darüber liegt, fällt "
        "weg: Anzahlen können zu niedrig sein. Keine Fehlerspanne deckt das ab. Tabellen: "
        "{sheets}."
    ),
    "guarantee": "Wie der Schutz wirkt",
    "noise": (
        "Die Zahlen wurden vor der Veröffentlichung zufällig verändert. Keine Zahl ist exakt, und "
        "kleine Zahlen sind im Verhältnis unsicherer als große."
    ),
    "guess": (
        "Das begrenzt, was die Zahlen über irgendjemanden verraten: Wer eine Aussage über jemanden "
        "für {prior} % wahrscheinlich hält, kann sie nach dem Lesen aller Zahlen für höchstens "
        "{posterior} % wahrscheinlich halten."
    ),
    "parameters": (
        "Das Verfahren ist Differential Privacy mit Epsilon = {epsilon} und Delta = {delta}; Delta "
        "ist ungefähr die Wahrscheinlichkeit, dass die Grenze nicht gilt."
    ),
    "exact": "Exakt veröffentlicht, unverändert und außerhalb dieses Schutzes: {names}.",
    "reading": "Wie die Zahlen zu lesen sind",
    "margin": (
        "Fehlerspanne: Mit {confidence} % Sicherheit weicht die unveränderte Zahl höchstens so "
        "weit von der veröffentlichten ab."
    ),
    "interval": (
        "Unter- und Obergrenze: Mit {confidence} % Sicherheit liegt die unveränderte Zahl "
        "dazwischen."
    ),
    "range": (
        "Die Spanne einer Zahl reicht von ihrer Unter- bis zu ihrer Obergrenze, oder von der Zahl"
        " minus Fehlerspanne bis zur Zahl plus Fehlerspanne."
    ),
    "parts": (
        "Jede Zahl ist anders verändert. Deshalb kann ein Teil größer sein als das Ganze, und "
        "Tabellen können sich innerhalb ihrer Spannen widersprechen."
    ),
    "misses": "Etwa 1 von {one_in} Spannen enthält die unveränderte Zahl nicht.",
    "differ": (
        "Zwei Zahlen unterscheiden sich nur dann klar, wenn ihre Spannen sich nicht überschneiden."
    ),
    "sums": (
        "Wenn Sie Zahlen addieren, ist die Fehlerspanne der Summe meist größer als die der "
        "einzelnen Zahlen."
    ),
    "negative": (
        "Zahlen unter 0 entstehen durch die Zufallsänderung: als wenige oder keine zu lesen."
    ),
    "raised": (
        "Kleine Zahlen wurden etwas erhöht und große etwas gesenkt, sodass keine unter 0 liegt "
        "und alle sich addieren."
    ),
    "adjusted": (
        "„{column}“ kennzeichnet Zahlen, die aus ihrer Spanne verschoben wurden, damit sich alle "
        "addieren, oder in deren Fehlerspanne keine ganze Zahl ab 0 liegt. Bitte nicht zitieren."
    ),
    "full_range": (
        "Die Spanne {low} bis {high} sagt nichts aus: Sie ist so breit wie die Grenzen der Werte. "
        "Bitte nicht zitieren."
    ),
    "classes": "Qualitätsklassen neben den Zahlen, und Zeichen in Zellen ohne Zahl:",
    "weak": "Von Zahlen in grauer Kursivschrift nicht die Zahl zitieren, höchstens ihre Spanne.",
    "own_noise": (
        "Summen wurden gesondert ermittelt, mit eigener Zufallsänderung und eigenen Obergrenzen: "
        "Die Teile müssen sich nicht zu ihnen addieren."
    ),
    "bounded": (
        "{tables}: Anzahlen und Summen dieser Tabellen addieren sich nicht immer, auch ohne "
        "Rauschen: Die Obergrenzen gelten für jede Tabelle gesondert, ein Datensatz kann in einer "
        "fehlen und in einer anderen zählen."
    ),
    "no_row": "zu dieser Zelle gehört keine Zeile der Tabelle.",
    "total_code": "Code „{code}“: insgesamt.",
    "further": "Technische Angaben stehen auf dem letzten Blatt, „{annex}“.",
}
