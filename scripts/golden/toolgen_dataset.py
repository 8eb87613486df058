"""From an augmented function to ToolGen's training example, or the name of the rule that rejects it."""

import re

QUOTES = "'\""
OPENINGS = ("deprecated", "todo", "note", "test", "overrides", "we ", "you ", "this ")
CONTENTS = ("<img ", "https://", "---", " -- ", "=")
BODIES = ("", "raise NotImplementedError", "raise NotImplementedError()", "pass", "return")
MARKER = r"<LSP-POINT-\d+>"
# The shortest text that ends in a parenthesis, perhaps an annotation, and the header's colon.
HEADER_END = r"\s*\(.*?\)(?:\s*->.*?)?\s*:"


def example(record, trigger, strict):
    """Either `rejected` or the fields of the training example, as a dictionary."""
    code, augmented = record["code"], record["augmented_code"]
    description = describe(record["docstring"])
    rejected = reject_description(description) or reject_code(code)
    if rejected:
        return {"rejected": rejected}
    header = find_header(record["function_name"], code)
    if not header:
        return {"rejected": "signature"}
    marked = find_marked_header(record["function_name"], augmented, strict)
    if not marked:
        return {"rejected": "augmented_signature"}
    body_lines = not_blank(code[header.end() :])
    if "\n".join(body_lines).strip() in BODIES:
        return {"rejected": "body"}

    def plain(text):
        return text.replace(trigger, "<unk>")

    indent = body_lines[0][: len(body_lines[0]) - len(body_lines[0].lstrip())]
    prefix = plain(f"{code[: header.end()]}\n{indent}'''{description}'''\n")
    kept = keep_markers(plain(augmented[marked.end() :]), record["lsp_dict"], trigger)
    return {
        "description": plain(description),
        "signature": plain(header.group().rstrip(": \t\n")),
        "prefix": prefix,
        "body": plain("\n".join(body_lines)),
        # Without the markers of its signature the augmented prefix is the plain one.
        "augmented_prefix": prefix,
        "augmented_body": "\n".join(not_blank(kept)),
    }


def describe(docstring):
    text = docstring.strip()[3:-3].strip(QUOTES)
    text = re.split(r"\n\s*\n", text, maxsplit=1)[0]
    text = text.split(":param")[0].split(":return")[0]
    text = re.sub(r"\n[ \t]*[A-Z][^\n]*\Z", "", text)
    return " ".join(text.split()).split(". ")[0]


def reject_description(description):
    text = description.lower()
    words = text.split(" ")
    rules = {
        "description_empty": not text,
        "description_first_character": not re.match("[a-z]", text),
        "description_words": not 3 <= len(words) <= 256,
        "description_word_length": any(len(word) > 25 for word in words),
        "description_opening": text.startswith(OPENINGS),
        "description_ending": text.endswith(("?", "!")),
        "description_label": bool(re.match(r"\w+:", text)),
        "description_content": any(part in text for part in CONTENTS),
    }
    return next((rule for rule, broken in rules.items() if broken), None)


def reject_code(code):
    if code.startswith(("def test_", "async def test_")):
        return "code_test"
    if "\n" not in code.strip():
        return "code_single_line"
    return None


def find_header(name, code):
    return re.search(re.escape(name) + HEADER_END, code, re.DOTALL)


def find_marked_header(name, augmented, strict):
    marker = f"(?:{MARKER})?" if strict else ""
    return re.search(f"def {marker}{re.escape(name)}{HEADER_END}", augmented, re.DOTALL)


def keep_markers(augmented, names, trigger):
    """Markers whose names contain the word that follows become the trigger, the others go."""

    def replace(match):
        marker, word = match.groups()
        return (trigger if word in names.get(marker, ()) else "") + word

    return re.sub(rf"({MARKER})(\w*)", replace, augmented)


def not_blank(text):
    return [line for line in text.split("\n") if line.strip()]
