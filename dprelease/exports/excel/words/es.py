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
    "column": "Columna",
    "text": "Texto",
    "notes_title": "Signos, clases de calidad y notas sobre las tablas",
    "annex_title": "Detalles técnicos (en inglés)",
    "one_table": "Esta hoja contiene una tabla.",
    "estimates": "Estimaciones",
    "estimates_meaning": (
        "Estas estimaciones tienen decimales y pueden ser inferiores a 0. Sirven para otros "
        "cálculos. Las cifras oficiales están en el archivo {file}."
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
    "protected_ids": (
        "Está protegido aquello que designa un «{id}» (por ejemplo una persona, un hogar o una "
        "empresa), con todos sus registros en conjunto."
    ),
    "limits": (
        "Por cada «{id}» cuentan como máximo {groups} grupos de una tabla y {rows} registros por "
        "grupo. Los demás se descartan, por lo que las cifras pueden ser demasiado bajas. Tablas: "
        "{sheets}."
    ),
    "limits_of_all_rows": (
        "Por cada «{id}» cuentan como máximo {total} registros de una tabla. Los demás se "
        "descartan, por lo que las cifras pueden ser demasiado bajas. Tablas: {sheets}."
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
    "classes": "Clases de calidad junto a las cifras, y signos en las celdas sin cifra:",
    "weak": "Las cifras en cursiva gris no son fiables. No las cite.",
    "own_noise": (
        "Los totales se miden por separado, con ruido y límites propios: la suma de las partes "
        "puede diferir de ellos."
    ),
    "bounded": (
        "{tables}: los recuentos y sumas de estas tablas pueden no cuadrar entre sí, incluso sin "
        "ruido. Los límites se aplican a cada tabla por separado: un registro descartado en una "
        "puede contar en otra."
    ),
    "total_code": "Código «{code}»: total.",
    "further": "Los detalles técnicos están en la última hoja, «{annex}».",
}
