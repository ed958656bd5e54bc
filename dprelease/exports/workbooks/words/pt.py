"""The texts of workbooks in Portuguese."""

DECIMAL = ","

WORDS = {
    "cover": "Capa",
    "contents": "Índice",
    "notes": "Notas",
    "annex": "Anexo",
    "table": "Quadro",
    "worksheet": "Folha",
    "title": "Título",
    "row": "Linha",
    "in_all": "no total",
    "by": "por {keys}",
    "column": "Coluna",
    "text": "Texto",
    "notes_title": "Sinais, classes de qualidade e notas sobre os quadros",
    "annex_title": "Pormenores técnicos (em inglês)",
    "one_table": "Esta folha contém um quadro.",
    "estimates": "Estimativas",
    "estimates_meaning": (
        "São estimativas, com casas decimais, que podem ser inferiores a 0. Use-as apenas para "
        "somas próprias, por exemplo de várias áreas. Retire os números isolados e os totais do "
        "ficheiro {file}, onde os números pequenos foram um pouco aumentados e os grandes um "
        "pouco reduzidos."
    ),
    "official_meaning": (
        "Retire deste ficheiro os números isolados e os totais. Apenas para somas próprias, por "
        "exemplo de várias áreas, some as estimativas do ficheiro {file}: não foram aumentadas "
        "nem reduzidas."
    ),
    "about": "Sobre esta publicação",
    "publisher": "Publicado por: {text}",
    "contact": "Contacto: {text}",
    "licence": "Licença: {text}",
    "period": "Período de referência: {text}",
    "area": "Território: {text}",
    "version": "Versão: {text}",
    "replaces": "Substitui: {text}",
    "methodology": "Metodologia: {text}",
    "protected": "Quem está protegido",
    "protected_rows": "Cada registo dos dados está protegido separadamente.",
    "protected_ids": "Cada unidade «{id}» está protegida, com todos os seus registos em conjunto.",
    "limits": (
        "Limite por cada «{id}»: no máximo {rows} por célula, em no máximo {groups} de um quadro."
        " O que o excede é excluído: as contagens podem ser demasiado baixas; os outros números, "
        "demasiado baixos ou altos. Nenhuma margem de erro cobre isto. Quadros: {sheets}."
    ),
    "limits_of_all_rows": (
        "Limite por cada «{id}»: no máximo {total} de um quadro. O que o excede é excluído: as "
        "contagens podem ser demasiado baixas; os outros números, demasiado baixos ou altos. "
        "Nenhuma margem de erro cobre isto. Quadros: {sheets}."
    ),
    "limits_of_people": (
        "Cada «{id}» conta em no máximo {groups} de um quadro. O que o excede é excluído: as "
        "contagens podem ser demasiado baixas. Nenhuma margem de erro cobre isto. Quadros: "
        "{sheets}."
    ),
    "guarantee": "Como funciona a proteção",
    "noise": (
        "Antes da publicação foi acrescentado ruído aleatório aos números. Nenhum número é exato, "
        "e os números pequenos são, em proporção, menos seguros do que os grandes."
    ),
    "guess": (
        "O ruído limita o que estes números revelam sobre alguém: quem considera uma afirmação "
        "sobre alguém provável a {prior} % pode considerá-la provável, no máximo, a {posterior} % "
        "depois de ler todos os números."
    ),
    "parameters": (
        "Trata-se de privacidade diferencial com épsilon = {epsilon} e delta = {delta}; delta é "
        "aproximadamente a probabilidade de o limite não se verificar."
    ),
    "exact": "Publicado exatamente, sem ruído e fora desta proteção: {names}.",
    "reading": "Como ler os números",
    "margin": (
        "Margem de erro: com {confidence} % de confiança, o número sem ruído afasta-se, no máximo, "
        "este valor do número publicado."
    ),
    "interval": (
        "Limites inferior e superior: com {confidence} % de confiança, o número sem ruído situa-se "
        "entre eles."
    ),
    "range": (
        "O intervalo de um número vai do limite inferior ao superior, ou do número menos a margem"
        " de erro ao número mais essa margem."
    ),
    "parts": (
        "O ruído difere de número para número. Por isso, uma parte pode exceder o todo, e os "
        "quadros podem contradizer-se dentro dos seus intervalos."
    ),
    "misses": "Cerca de 1 em cada {one_in} intervalos não contém o número sem ruído.",
    "differ": "Dois números só diferem claramente se os seus intervalos não se sobrepuserem.",
    "sums": "Se somar números, a margem de erro da soma é, em geral, maior do que as deles.",
    "negative": "Os números abaixo de 0 devem-se ao ruído: leia-os como poucos ou nenhum.",
    "raised": (
        "Os números pequenos foram um pouco aumentados e os grandes um pouco reduzidos, para que "
        "nenhum seja inferior a 0 e todos somem certo."
    ),
    "adjusted": (
        "«{column}» assinala números movidos para fora do seu intervalo para que todos somem "
        "certo, ou sem número inteiro a partir de 0 dentro da sua margem. Não os cite."
    ),
    "full_range": (
        "O intervalo de {low} a {high} não diz nada: é tão largo como os limites dos valores. Não "
        "o cite."
    ),
    "classes": "Classes de qualidade ao lado dos números, e sinais nas células sem número:",
    "weak": "Não cite os números em itálico cinzento, no máximo o seu intervalo.",
    "own_noise": (
        "Os totais são medidos separadamente, com ruído e limites próprios: a soma das partes "
        "pode diferir deles."
    ),
    "bounded": (
        "{tables}: as contagens e somas destes quadros podem não coincidir, mesmo sem ruído. "
        "Os limites aplicam-se a cada quadro em separado: um registo excluído de um pode contar "
        "noutro."
    ),
    "no_row": "nenhuma linha da tabela corresponde a esta célula.",
    "total_code": "Código «{code}»: total.",
    "further": "Os pormenores técnicos estão na última folha, «{annex}».",
}
