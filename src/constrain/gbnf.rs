//! Grammars in llama.cpp's GBNF notation, rewritten as Lark.
//!
//! # Place
//! Uses nothing but text. Part of the grammar compiler.
//! # Sources
//! The notation as described in llama.cpp's `grammars/README.md` (read 2026-11): rules `name ::= …`,
//! quoted literals, character classes, groups, `* + ?` and `{m,n}`, comments after `#`.

use super::ConstraintError;

/// Rewrite a grammar. `root` becomes `start`, other rules get names Lark takes for rules.
///
/// # Errors
/// With line and column when the text is not GBNF or has no rule `root`.
pub(super) fn to_lark(gbnf: &str) -> Result<String, ConstraintError> {
    let mut reader = Reader { chars: gbnf.chars().collect(), at: 0 };
    let mut lark = String::new();
    let mut has_root = false;
    reader.skip_blank();
    while reader.peek().is_some() {
        let name = reader.name()?;
        has_root |= name == "root";
        reader.skip_space();
        if !reader.take("::=") {
            return Err(reader.mistake("expected `::=` after the name of a rule"));
        }
        lark.push_str(&rule_name(&name));
        lark.push_str(": ");
        reader.alternatives(&mut lark, 0)?;
        lark.push('\n');
        reader.skip_blank();
    }
    if has_root { Ok(lark) } else { Err(reader.mistake("there is no rule `root`")) }
}

/// Lark's rules are lower case and have no dashes; a prefix keeps them apart from `start`. Dashes and
/// upper case are spelled out so that different names stay different.
fn rule_name(name: &str) -> String {
    if name == "root" {
        return "start".to_owned();
    }
    let mut out = String::from("r_");
    for c in name.chars() {
        match c {
            '-' => out.push_str("__d_"),
            '_' => out.push_str("__u_"),
            c if c.is_ascii_uppercase() => {
                out.push_str("__c_");
                out.push(c.to_ascii_lowercase());
            }
            c => out.push(c),
        }
    }
    out
}

struct Reader {
    chars: Vec<char>,
    at: usize,
}

/// Deepest nesting of groups.
const GROUPS_MAX: usize = 100;

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, text: &str) -> bool {
        let n = text.chars().count();
        let is_next =
            text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if is_next {
            self.at += n;
        }
        is_next
    }

    fn mistake(&self, problem: &str) -> ConstraintError {
        let before = &self.chars[..self.at.min(self.chars.len())];
        let line = before.iter().filter(|c| **c == '\n').count() + 1;
        let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
        ConstraintError::Grammar {
            kind: "GBNF grammar",
            line: u32::try_from(line).ok(),
            column: u32::try_from(column).ok(),
            problem: problem.to_owned(),
        }
    }

    /// White space and comments within a line.
    fn skip_space(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.at += 1,
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => break,
            }
        }
    }

    /// White space and comments, line ends included.
    fn skip_blank(&mut self) {
        loop {
            self.skip_space();
            match self.peek() {
                Some('\n' | '\r') => self.at += 1,
                _ => break,
            }
        }
    }

    fn name(&mut self) -> Result<String, ConstraintError> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.mistake("expected the name of a rule"));
        }
        Ok(self.chars[start..self.at].iter().collect())
    }

    fn alternatives(&mut self, lark: &mut String, depth: usize) -> Result<(), ConstraintError> {
        if depth > GROUPS_MAX {
            return Err(self.mistake("groups are nested too deep"));
        }
        let is_group = depth > 0;
        loop {
            self.sequence(lark, depth)?;
            // A line may begin with `|`, and inside a group line ends mean nothing.
            let end = self.at;
            self.skip_blank();
            if self.take("|") {
                lark.push_str(" | ");
            } else {
                if !is_group {
                    self.at = end;
                }
                return Ok(());
            }
        }
    }

    fn sequence(&mut self, lark: &mut String, depth: usize) -> Result<(), ConstraintError> {
        let mut n_items = 0;
        loop {
            if depth > 0 || n_items == 0 {
                self.skip_blank();
            } else {
                self.skip_space();
            }
            match self.peek() {
                Some('"') => self.literal(lark)?,
                Some('[') => self.class(lark)?,
                Some('.') => {
                    self.at += 1;
                    lark.push_str("/(?s:.)/");
                }
                Some('(') => {
                    self.at += 1;
                    lark.push('(');
                    self.alternatives(lark, depth + 1)?;
                    if !self.take(")") {
                        return Err(self.mistake("expected `)`"));
                    }
                    lark.push(')');
                }
                Some(c) if c.is_ascii_alphanumeric() || c == '_' => {
                    let name = self.name()?;
                    lark.push_str(&rule_name(&name));
                }
                _ if n_items == 0 => {
                    return Err(self.mistake("expected a literal, a class, a group or a rule"));
                }
                _ => return Ok(()),
            }
            n_items += 1;
            self.repetition(lark)?;
            lark.push(' ');
        }
    }

    fn repetition(&mut self, lark: &mut String) -> Result<(), ConstraintError> {
        self.skip_space();
        match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                lark.push(c);
            }
            Some('{') => {
                let start = self.at;
                while self.peek().is_some_and(|c| c != '}' && c != '\n') {
                    self.at += 1;
                }
                let is_count = |c: &char| c.is_ascii_digit() || matches!(c, ',' | ' ' | '{');
                if !self.chars[start..self.at].iter().all(is_count) || !self.take("}") {
                    return Err(self.mistake("expected `{m}`, `{m,}` or `{m,n}`"));
                }
                lark.extend(self.chars[start..self.at].iter().filter(|c| **c != ' '));
            }
            _ => {}
        }
        Ok(())
    }

    fn literal(&mut self, lark: &mut String) -> Result<(), ConstraintError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    // Both notations escape as JSON does, once the escapes are resolved.
                    lark.push_str(&serde_json::Value::from(text).to_string());
                    return Ok(());
                }
                Some('\\') => text.push(self.escape()?),
                Some('\n') | None => return Err(self.mistake("the literal is not closed")),
                Some(c) => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    fn class(&mut self, lark: &mut String) -> Result<(), ConstraintError> {
        self.at += 1;
        lark.push_str("/[");
        if self.take("^") {
            lark.push('^');
        }
        loop {
            let c = match self.peek() {
                Some(']') => {
                    self.at += 1;
                    lark.push_str("]/");
                    return Ok(());
                }
                Some('-') => {
                    self.at += 1;
                    // A range, unless it stands at an edge.
                    let is_edge = lark.ends_with("/[") || lark.ends_with("[^");
                    lark.push_str(if is_edge || self.peek() == Some(']') { "\\-" } else { "-" });
                    continue;
                }
                Some('\\') => self.escape()?,
                Some('\n') | None => return Err(self.mistake("the class is not closed")),
                Some(c) => {
                    self.at += 1;
                    c
                }
            };
            if c.is_ascii_alphanumeric() {
                lark.push(c);
            } else {
                lark.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
            }
        }
    }

    fn escape(&mut self) -> Result<char, ConstraintError> {
        self.at += 1;
        let Some(c) = self.peek() else {
            return Err(self.mistake("the escape is not finished"));
        };
        let n_digits = match c {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        self.at += 1;
        if n_digits == 0 {
            return match c {
                'n' => Ok('\n'),
                'r' => Ok('\r'),
                't' => Ok('\t'),
                '\\' | '"' | '[' | ']' | '-' | '^' | '/' => Ok(c),
                _ => {
                    self.at -= 1;
                    Err(self.mistake("unknown escape"))
                }
            };
        }
        let digits: String = self.chars.iter().skip(self.at).take(n_digits).collect();
        let code = u32::from_str_radix(&digits, 16).ok();
        let Some(c) = code.and_then(char::from_u32).filter(|_| digits.len() == n_digits) else {
            return Err(self.mistake("the escape is not a character"));
        };
        self.at += n_digits;
        Ok(c)
    }
}
