"""The texts of workbooks in Spanish."""

DECIMAL = ","

WORDS = {
    "cover": "Portada",
    "contents": "Índice",
    "notes": "Notas",
    "annex": "Anexo",
    "table": "Tabla",
    "worksheet": "Hoja",
    "title": "Título",
    "row": "Fila",
    "in_all": "en total",
    "by": "por {keys}",
    "column": "Columna",
    "text": "Texto",
    "notes_title": "Signos, clases de calidad y notas sobre las tablas",
    "annex_title": "Detalles técnicos (en inglés)",
    "one_table": "Esta hoja contiene una tabla.",
    "estimates": "Estimaciones",
    "estimates_meaning": (
        "Son estimaciones, con decimales, que pueden ser inferiores a 0. Úselas solo para sumas "
        "propias, por ejemplo de varias zonas. Tome las cifras sueltas y los totales del archivo "
        "{file}, donde las cifras pequeñas se aumentaron un poco y las grandes se redujeron."
    ),
    "official_meaning": (
        "Tome de este archivo las cifras sueltas y los totales. Solo para sumas propias, por "
        "ejemplo de varias zonas, sume las estimaciones del archivo {file}: no se aumentaron ni "
        "se redujeron."
    ),
    "about": "Sobre esta publicación",
    "publisher": "Publicado por: {text}",
    "contact": "Contacto: {text}",
    "licence": "Licencia: {text}",
    "period": "Período de referencia: {text}",
    "area": "Ámbito: {text}",
    "version": "Versión: {text}",
    "replaces": "Sustituye a: {text}",
    "methodology": "Metodología: {text}",
    "protected": "Quién está protegido",
    "protected_rows": "Cada registro de los datos está protegido por separado.",
    "protected_ids": "Está protegida cada unidad «{id}», con todos sus registros en conjunto.",
    "limits": (
        "Límite por cada «{id}»: como máximo {rows} por celda, en como máximo {groups} de una "
        "tabla. Lo que lo supera se descarta: los recuentos pueden ser demasiado bajos; las demás"
        " cifras, demasiado bajas o altas. Ningún margen de error cubre esto. Tablas: {sheets}."
    ),
    "limits_of_all_rows": (
        "Límite por cada «{id}»: como máximo {total} de una tabla. Lo que lo supera se descarta: "
        "los recuentos pueden ser demasiado bajos; las demás cifras, demasiado bajas o altas. "
        "Ningún margen de error cubre esto. Tablas: {sheets}."
    ),
    "limits_of_people": (
        "Cada «{id}» cuenta en como máximo {groups} de una tabla. Lo que lo supera se descarta: "
        "los recuentos pueden ser demasiado bajos. Ningún margen de error cubre esto. Tablas: "
        "{sheets}."
    ),
    "guarantee": "Cómo funciona la protección",
    "noise": (
        "Antes de la publicación se añadió ruido aleatorio a las cifras. Ninguna cifra es exacta, "
        "y las pequeñas son, en proporción, menos seguras que las grandes."
    ),
    "guess": (
        "El ruido limita lo que estas cifras revelan sobre cualquiera: quien considera una "
        "afirmación sobre alguien probable al {prior} % puede considerarla probable como máximo al "
        "{posterior} % tras leer todas las cifras."
    ),
    "parameters": (
        "Es privacidad diferencial con épsilon = {epsilon} y delta = {delta}; delta es "
        "aproximadamente la probabilidad de que el límite no se cumpla."
    ),
    "exact": "Publicado con exactitud, sin ruido y fuera de esta protección: {names}.",
    "reading": "Cómo leer las cifras",
    "margin": (
        "Margen de error: con un {confidence} % de confianza, la cifra sin ruido se aparta como "
        "máximo eso de la cifra publicada."
    ),
    "interval": (
        "Límites inferior y superior: con un {confidence} % de confianza, la cifra sin ruido está "
        "entre ellos."
    ),
    "range": (
        "El intervalo de una cifra va de su límite inferior al superior, o de la cifra menos su "
        "margen de error a la cifra más ese margen."
    ),
    "parts": (
        "El ruido difiere de una cifra a otra. Por eso una parte puede superar al total, y las "
        "tablas pueden contradecirse dentro de sus intervalos."
    ),
    "misses": "Aproximadamente 1 de cada {one_in} intervalos no contiene la cifra sin ruido.",
    "differ": "Dos cifras difieren claramente solo si sus intervalos no se solapan.",
    "sums": "Si suma cifras, el margen de error de la suma suele ser mayor que los de ellas.",
    "negative": "Las cifras inferiores a 0 se deben al ruido: léalas como pocos o ninguno.",
    "raised": (
        "Las cifras pequeñas se aumentaron un poco y las grandes se redujeron, para que ninguna "
        "sea inferior a 0 y todas cuadren."
    ),
    "adjusted": (
        "«{column}» marca las cifras que se sacaron de su intervalo para que todas cuadren, o sin "
        "ningún número entero desde 0 dentro de su margen. No las cite."
    ),
    "full_range": (
        "El intervalo de {low} a {high} no dice nada: es tan ancho como los límites de los "
        "valores. No lo cite."
    ),
    "classes": "Clases de calidad junto a las cifras, y signos en las celdas sin cifra:",
    "weak": "No cite las cifras en cursiva gris, a lo sumo su intervalo.",
    "own_noise": (
        "Los totales se miden por separado, con ruido y límites propios: la suma de las partes "
        "puede diferir de ellos."
    ),
    "bounded": (
        "{tables}: los recuentos y sumas de estas tablas pueden no cuadrar entre sí, incluso sin "
        "ruido. Los límites se aplican a cada tabla por separado: un registro descartado en una "
        "puede contar en otra."
    ),
    "no_row": "ninguna fila de la tabla corresponde a esta celda.",
    "total_code": "Código «{code}»: total.",
    "further": "Los detalles técnicos están en la última hoja, «{annex}».",
}
