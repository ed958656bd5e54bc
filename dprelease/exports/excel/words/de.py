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
        "Geschützt ist, wen oder was „{id}“ bezeichnet (zum Beispiel eine Person, einen Haushalt "
        "oder einen Betrieb), mit allen zugehörigen Datensätzen zusammen."
    ),
    "limits": (
        "Je „{id}“ zählen höchstens {groups} Gruppen einer Tabelle und {rows} Datensätze pro "
        "Gruppe. Weitere Datensätze fallen weg, Zahlen können deshalb zu niedrig sein. Tabellen: "
        "{sheets}."
    ),
    "limits_of_all_rows": (
        "Je „{id}“ zählen höchstens {total} Datensätze einer Tabelle. Weitere Datensätze fallen "
        "weg, Zahlen können deshalb zu niedrig sein. Tabellen: {sheets}."
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
