"""The texts of workbooks in French."""

DECIMAL = ","

WORDS = {
    "cover": "Couverture",
    "contents": "Sommaire",
    "notes": "Notes",
    "annex": "Annexe",
    "table": "Tableau",
    "worksheet": "Feuille",
    "title": "Titre",
    "row": "Ligne",
    "in_all": "au total",
    "by": "par {keys}",
    "column": "Colonne",
    "text": "Texte",
    "notes_title": "Signes, classes de qualité et notes sur les tableaux",
    "annex_title": "Précisions techniques (en anglais)",
    "one_table": "Cette feuille contient un tableau.",
    "estimates": "Estimations",
    "estimates_meaning": (
        "Ce sont des estimations, avec des décimales, qui peuvent être inférieures à 0. Ne les "
        "utilisez que pour vos propres sommes, par exemple de plusieurs zones. Prenez les "
        "chiffres isolés et les totaux dans le fichier {file}, où les petits chiffres ont été un "
        "peu relevés et les grands un peu abaissés."
    ),
    "official_meaning": (
        "Prenez dans ce fichier les chiffres isolés et les totaux. Pour vos propres sommes "
        "seulement, par exemple de plusieurs zones, additionnez les estimations du fichier {file} "
        ": elles n’ont été ni relevées ni abaissées."
    ),
    "about": "À propos de cette publication",
    "publisher": "Publié par : {text}",
    "contact": "Contact : {text}",
    "licence": "Licence : {text}",
    "period": "Période de référence : {text}",
    "area": "Territoire : {text}",
    "version": "Version : {text}",
    "replaces": "Remplace : {text}",
    "methodology": "Méthodologie : {text}",
    "protected": "Qui est protégé",
    "protected_rows": "Chaque enregistrement des données est protégé séparément.",
    "protected_ids": "Chaque unité « {id} » est protégée, avec l’ensemble de ses enregistrements.",
    "limits": (
        "Limite pour chaque « {id} » : au plus {rows} par cellule, dans au plus {groups} d’un "
        "tableau. Ce qui dépasse est écarté : les effectifs peuvent être trop bas, les autres "
        "chiffres trop bas ou trop élevés. Aucune marge d’erreur ne couvre cela. Tableaux : "
        "{sheets}."
    ),
    "limits_of_all_rows": (
        "Limite pour chaque « {id} » : au plus {total} d’un tableau. Ce qui dépasse est écarté : "
        "les effectifs peuvent être trop bas, les autres chiffres trop bas ou trop élevés. Aucune"
        " marge d’erreur ne couvre cela. Tableaux : {sheets}."
    ),
    "limits_of_people": (
        "Chaque « {id} » compte dans au plus {groups} d’un tableau. Ce qui dépasse est écarté : "
        "les effectifs peuvent être trop bas. Aucune marge d’erreur ne couvre cela. Tableaux : "
        "{sheets}."
    ),
    "guarantee": "Comment fonctionne la protection",
    "noise": (
        "Un bruit aléatoire a été ajouté aux chiffres avant leur publication. Aucun chiffre n’est "
        "exact, et les petits chiffres sont, en proportion, moins sûrs que les grands."
    ),
    "guess": (
        "Le bruit limite ce que ces chiffres révèlent sur qui que ce soit : qui juge une "
        "affirmation sur quelqu’un probable à {prior} % peut la juger probable à {posterior} % au "
        "plus après avoir lu tous les chiffres."
    ),
    "parameters": (
        "Il s’agit de confidentialité différentielle avec epsilon = {epsilon} et delta = {delta} ; "
        "delta est à peu près la probabilité que la limite ne tienne pas."
    ),
    "exact": "Publiés exactement, sans bruit et hors de cette protection : {names}.",
    "reading": "Comment lire les chiffres",
    "margin": (
        "Marge d’erreur : avec une confiance de {confidence} %, le chiffre sans bruit s’écarte au "
        "plus d’autant du chiffre publié."
    ),
    "interval": (
        "Bornes inférieure et supérieure : avec une confiance de {confidence} %, le chiffre sans "
        "bruit se situe entre elles."
    ),
    "range": (
        "L’intervalle d’un chiffre va de sa borne inférieure à sa borne supérieure, ou du chiffre"
        " moins sa marge d’erreur au chiffre plus cette marge."
    ),
    "parts": (
        "Le bruit diffère d’un chiffre à l’autre. Une partie peut donc dépasser le tout, et des "
        "tableaux peuvent se contredire dans les limites de leurs intervalles."
    ),
    "misses": "Environ 1 intervalle sur {one_in} ne contient pas le chiffre sans bruit.",
    "differ": (
        "Deux chiffres diffèrent nettement seulement si leurs intervalles ne se recoupent pas."
    ),
    "sums": (
        "Si vous additionnez des chiffres, la marge d’erreur de la somme est en général plus "
        "grande que les leurs."
    ),
    "negative": "Les chiffres inférieurs à 0 viennent du bruit : à lire comme peu ou aucun.",
    "raised": (
        "Les petits chiffres ont été un peu relevés et les grands un peu abaissés, pour qu’aucun "
        "ne soit inférieur à 0 et que tous s’additionnent."
    ),
    "adjusted": (
        "« {column} » marque les chiffres sortis de leur intervalle pour que tous s’additionnent, "
        "ou sans nombre entier à partir de 0 dans leur marge. Ne les citez pas."
    ),
    "full_range": (
        "L’intervalle de {low} à {high} ne dit rien : il est aussi large que les bornes des "
        "valeurs. Ne le citez pas."
    ),
    "classes": "Classes de qualité à côté des chiffres, et signes dans les cellules sans chiffre :",
    "weak": "Ne citez pas les chiffres en italique gris, au plus leur intervalle.",
    "own_noise": (
        "Les totaux sont mesurés séparément, avec leur propre bruit et leurs propres limites : la "
        "somme des parties peut en différer."
    ),
    "bounded": (
        "{tables} : les effectifs et sommes de ces tableaux peuvent différer entre eux, même sans "
        "bruit. Les limites s’appliquent séparément à chaque tableau : un enregistrement écarté de "
        "l’un peut compter dans un autre."
    ),
    "no_row": "aucune ligne du tableau ne correspond à cette cellule.",
    "total_code": "Code « {code} » : total.",
    "further": "Les précisions techniques sont sur la dernière feuille, « {annex} ».",
}
