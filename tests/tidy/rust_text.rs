//! Just enough of Rust's syntax: words without comments and literals, paths, regions of test code.

/// A source text, with its path relative to the repository root and `/` between folders.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Something that breaks a rule, with what to do about it.
pub(crate) type Complaint = String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Inside `#[cfg(test)] mod … { }`, or in a file of tests.
    pub(crate) in_test: bool,
}

/// A path as written (`use a::{b, c::d}` counts as two), and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathUse {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    pub(crate) in_test: bool,
    /// How many modules deep the place is, the crate root being 0.
    pub(crate) depth: usize,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn in_src(&self) -> bool {
        self.is_rust() && self.path.starts_with("src/")
    }

    /// `Some("engine")` for `src/engine/…`; `None` for `src/lib.rs` and everything outside `src/`.
    pub(crate) fn folder(&self) -> Option<&str> {
        let rest = self.path.strip_prefix("src/")?;
        rest.split_once('/').map(|(folder, _)| folder)
    }

    pub(crate) fn is_test_file(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        !self.path.starts_with("src/")
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
            || self.path.contains("/tests/")
            || self.path.contains("/test/")
    }

    /// Whether the file lies in one of `places` (`engine`, `device/cuda`, or `*`).
    pub(crate) fn is_in(&self, places: &[&str]) -> bool {
        let rest = self.path.strip_prefix("src/").unwrap_or(&self.path);
        places.iter().any(|place| {
            *place == "*" || rest.starts_with(&format!("{place}/")) || rest == format!("{place}.rs")
        })
    }

    /// Modules between the crate root and this file: `src/engine/mod.rs` 1, `src/engine/step.rs` 2.
    pub(crate) fn module_depth(&self) -> usize {
        let rest = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let n_parts = rest.split('/').count();
        match rest.rsplit('/').next() {
            Some("mod.rs" | "lib.rs" | "main.rs") => n_parts - 1,
            _ => n_parts,
        }
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        let mut tokens = lex(&self.text);
        if self.is_test_file() {
            tokens.iter_mut().for_each(|t| t.in_test = true);
        } else {
            mark_test_modules(&mut tokens);
        }
        tokens
    }
}

/// Split Rust text into words and punctuation; comments and the insides of literals are dropped.
pub(crate) fn lex(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < bytes.len() {
        let start = i;
        let first_line = line;
        let c = bytes[i];
        if text[i..].starts_with("//") {
            i += text[i..].find('\n').unwrap_or(text.len() - i);
        } else if text[i..].starts_with("/*") {
            i = end_of_block_comment(bytes, i);
        } else if let Some(end) = end_of_string(bytes, i) {
            i = end;
            tokens.push(Token { text: "\"\"".to_owned(), line: first_line, in_test: false });
        } else if c == b'\'' {
            i = end_of_quote(text, i);
        } else if c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80 {
            while i < bytes.len()
                && (bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_' || bytes[i] >= 0x80)
            {
                i += 1;
            }
            tokens.push(Token { text: text[start..i].to_owned(), line, in_test: false });
        } else if text[i..].starts_with("::") {
            i += 2;
            tokens.push(Token { text: "::".to_owned(), line, in_test: false });
        } else {
            i += 1;
            if !c.is_ascii_whitespace() {
                tokens.push(Token { text: (c as char).to_string(), line, in_test: false });
            }
        }
        line += bytes[start..i].iter().filter(|&&b| b == b'\n').count();
    }
    tokens
}

pub(crate) fn end_of_block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0usize);
    while i < bytes.len() {
        match &bytes[i..bytes.len().min(i + 2)] {
            b"/*" => (depth, i) = (depth + 1, i + 2),
            b"*/" => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    bytes.len()
}

/// End of the string literal that starts at `start` (with its prefix), if one does.
pub(crate) fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let before_is_word =
        start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
    let mut i = start;
    if !before_is_word {
        while i < bytes.len() && i < start + 2 && matches!(bytes[i], b'b' | b'c' | b'r') {
            i += 1;
        }
    }
    let is_raw = i > start && bytes[i - 1] == b'r';
    let hashes = bytes[i..].iter().take_while(|&&b| b == b'#').count();
    if is_raw && bytes.get(i + hashes) == Some(&b'"') {
        let close: Vec<u8> = std::iter::once(b'"').chain(vec![b'#'; hashes]).collect();
        let body = i + hashes + 1;
        let at = bytes[body..].windows(close.len()).position(|w| w == close);
        return Some(at.map_or(bytes.len(), |at| body + at + close.len()));
    }
    if bytes.get(i) != Some(&b'"') {
        return None;
    }
    i += 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return Some(i + 1),
            _ => i += 1,
        }
    }
    Some(bytes.len())
}

/// End of the character literal at `start`, or of the quote alone when it begins a lifetime.
pub(crate) fn end_of_quote(text: &str, start: usize) -> usize {
    let mut chars = text[start + 1..].char_indices();
    match chars.next() {
        Some((_, '\\')) => {
            chars.next();
            chars.find(|&(_, c)| c == '\'').map_or(text.len(), |(at, _)| start + 1 + at + 1)
        }
        Some((_, c)) => match chars.next() {
            Some((at, '\'')) => start + 1 + at + 1,
            _ => start + 1 + if c.is_alphabetic() || c == '_' { 0 } else { c.len_utf8() },
        },
        None => text.len(),
    }
}

pub(crate) fn mark_test_modules(tokens: &mut [Token]) {
    let marker = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut i = 0;
    while i + marker.len() < tokens.len() {
        if !marker.iter().zip(&tokens[i..]).all(|(m, t)| *m == t.text) {
            i += 1;
            continue;
        }
        let rest = i + marker.len();
        let open =
            tokens[rest..].iter().position(|t| t.text == "{" || t.text == ";").map(|at| rest + at);
        let end = match open {
            Some(open) if tokens[open].text == "{" => matching_brace(tokens, open),
            Some(semicolon) => semicolon,
            None => tokens.len() - 1,
        };
        tokens[i..=end].iter_mut().for_each(|t| t.in_test = true);
        i = end;
    }
}

pub(crate) fn matching_brace(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len() - 1
}

pub(crate) fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Every path of a source text, groups in braces expanded.
pub(crate) fn paths(source: &Source) -> Vec<PathUse> {
    let tokens = source.tokens();
    let mut found = Vec::new();
    let mut open_modules: Vec<usize> = Vec::new(); // index of the closing brace
    let mut i = 0;
    while i < tokens.len() {
        open_modules.retain(|&close| i < close);
        let is_inline_module =
            tokens[i].text == "mod" && tokens.get(i + 2).is_some_and(|t| t.text == "{");
        if is_inline_module {
            open_modules.push(matching_brace(&tokens, i + 2));
            i += 3;
            continue;
        }
        let starts_path = is_word(&tokens[i].text)
            && !i.checked_sub(1).is_some_and(|p| matches!(tokens[p].text.as_str(), "::" | "."));
        let in_use = i > 0 && tokens[i - 1].text == "use";
        if starts_path && (in_use || tokens.get(i + 1).is_some_and(|t| t.text == "::")) {
            let depth = source.module_depth() + open_modules.len();
            let mut expanded = Vec::new();
            i = expand_path(&tokens, i, &mut Vec::new(), &mut expanded);
            found.extend(expanded.into_iter().map(|(segments, at)| PathUse {
                segments,
                line: tokens[at].line,
                in_test: tokens[at].in_test,
                depth,
            }));
        } else {
            i += 1;
        }
    }
    found
}

/// Read the path at `i` under `prefix`, add what it names to `out`, return the index after it.
pub(crate) fn expand_path(
    tokens: &[Token],
    mut i: usize,
    prefix: &mut Vec<String>,
    out: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let n_prefix = prefix.len();
    let start = i;
    loop {
        match tokens.get(i).map(|t| t.text.as_str()) {
            Some("{") if !prefix.is_empty() => {
                let close = matching_brace(tokens, i);
                i += 1;
                while i < close {
                    if is_word(&tokens[i].text) || tokens[i].text == "{" {
                        i = expand_path(tokens, i, prefix, out);
                        // `as name` renames, it names nothing new.
                        while i < close && tokens[i].text != "," {
                            i += 1;
                        }
                    }
                    i += 1;
                }
                prefix.truncate(n_prefix);
                return close + 1;
            }
            Some(word) if is_word(word) => {
                prefix.push(word.to_owned());
                i += 1;
            }
            Some("*") => i += 1,
            _ => break,
        }
        match tokens.get(i).map(|t| t.text.as_str()) {
            Some("::") => i += 1,
            _ => break,
        }
    }
    if prefix.len() > n_prefix || i > start {
        out.push((prefix.clone(), start));
    }
    prefix.truncate(n_prefix);
    i.max(start + 1)
}
