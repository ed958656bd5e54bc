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
        "Diese Schätzwerte haben Nachkommastellen und können unter 0 liegen. Sie sind für weitere "
        "Berechnungen bestimmt. Die amtlichen Zahlen stehen in der Datei {file}."
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
    "classes": "Qualitätsklassen neben den Zahlen, und Zeichen in Zellen ohne Zahl:",
    "weak": "Zahlen in grauer Kursivschrift sind unzuverlässig. Bitte nicht zitieren.",
    "own_noise": (
        "Summen wurden gesondert ermittelt, mit eigener Zufallsänderung und eigenen Obergrenzen: "
        "Die Teile müssen sich nicht zu ihnen addieren."
    ),
    "bounded": (
        "{tables}: Anzahlen und Summen dieser Tabellen addieren sich nicht immer, auch ohne "
        "Rauschen: Die Obergrenzen gelten für jede Tabelle gesondert, ein Datensatz kann in einer "
        "fehlen und in einer anderen zählen."
    ),
    "total_code": "Code „{code}“: insgesamt.",
    "further": "Technische Angaben stehen auf dem letzten Blatt, „{annex}“.",
}
