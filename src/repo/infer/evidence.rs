//! Parameters without annotations: what docstrings and calls in the same file say about them.
//!
//! # Place
//! Asked for the limit of a parameter's own variable. Evidence is never complete: what it gives is
//! always open.

use super::ty::{Ty, TySet};
use super::world::{Env, Key, World};
use crate::repo::file::{File, FileId};
use crate::repo::name::Name;
use crate::repo::scope::ScopeId;
use crate::repo::syntax::*;
use std::sync::Arc;

/// Calls that are looked at for one parameter.
const CALLS_MAX: usize = 8;
/// Longest type text that is read in a docstring.
const TYPE_BYTES_MAX: usize = 80;

impl World<'_> {
    /// What is known of a parameter without annotation, beside its default.
    pub(super) fn evidence(&self, file: &Arc<File>, func: FuncId, param: u32) -> TySet {
        let p = file.ast.params[param as usize];
        if matches!(p.kind, ParamKind::VarArgs | ParamKind::VarKeywords) {
            return TySet::unknown();
        }
        let key = Key::Evidence(file.id, p.start);
        self.memo(key, || {
            let mut out = TySet::unknown();
            out.join(self.documented(file, func, p.name));
            out.join(self.called_with(file, func, param));
            // What a caller passes on from a parameter of its own is not followed.
            out.items.retain(|t| !t.has_vars());
            out
        })
    }

    fn documented(&self, file: &Arc<File>, func: FuncId, name: Name) -> TySet {
        let node = file.ast.function(func);
        let Some(doc) = node.docstring else {
            return TySet::empty();
        };
        let text = file.slice(doc);
        let Some((start, len)) = documented_type(text, name.as_str()) else {
            return TySet::empty();
        };
        let env = Env::new(file.clone(), file.scopes.of_function(func));
        let mut out = TySet::empty();
        let at = doc.start as usize + start;
        for (offset, word) in alternatives(&text[start..start + len]) {
            if let Some(builtin) = described(word) {
                out.join(self.of_builtin(builtin));
            } else if word == "None" {
                out.add(Ty::None);
            } else if is_dotted(word) {
                let range = at + offset..at + offset + word.len();
                if let Some((inner, root)) = self.parsed_in_place(&env, range) {
                    let found = self.annotation(&inner, root);
                    out.join(found);
                }
            }
        }
        out
    }

    fn called_with(&self, file: &Arc<File>, func: FuncId, param: u32) -> TySet {
        let node = file.ast.function(func);
        let scope = file.scopes.of_function(func);
        let class = self.method_class(file, scope);
        let called_as = match (node.name, class) {
            (Name::INIT | Name::NEW, Some(class)) => self.class_name(class),
            (name, _) => name,
        };
        let takes_self = class.is_some() && !self.is_static_method(file, func);
        let index = (param - node.params.start) as usize;
        let Some(index) = index.checked_sub(usize::from(takes_self)) else {
            return TySet::empty();
        };
        let p = file.ast.params[param as usize];
        let mut out = TySet::empty();
        let mut n = 0;
        let around = file.parent.filter(|_| file.id == FileId::FRAGMENT);
        let files = [Some(file.clone()), around.map(|(id, _)| self.file(id))];
        for file in files.into_iter().flatten() {
            for &call in file.calls_of(called_as) {
                let ExprKind::Call { args, .. } = file.ast.kind(call) else {
                    continue;
                };
                let args = file.ast.args(args);
                let by_name = args.iter().find(|a| a.kind == ArgKind::Keyword(p.name));
                let by_place = args
                    .get(index)
                    .filter(|_| args[..=index].iter().all(|a| a.kind == ArgKind::Positional));
                let Some(arg) = by_name.or(by_place) else {
                    continue;
                };
                n += 1;
                if n > CALLS_MAX {
                    return out;
                }
                let at = file.ast.expr(call).span.start;
                let env = Env::new(file.clone(), file.scopes.at(at));
                out.join(self.expr(&env, arg.value));
            }
        }
        out
    }

    /// Parse a part of a file's text as an expression that stands in a scope of the file.
    pub(super) fn parsed_in_place(
        &self,
        env: &Env,
        range: std::ops::Range<usize>,
    ) -> Option<(Env, ExprId)> {
        let region = Region { range, hole: None };
        let parent = Some((env.file.id, env.scope));
        let text = env.file.text.clone();
        let parsed = File::analyse_region(env.file.head(), text, &region, parent, None);
        let first = *parsed.ast.block(parsed.ast.body).first()?;
        let StmtKind::Expr(root) = parsed.ast.stmt(first).kind else {
            return None;
        };
        let mut inner = Env::new(Arc::new(parsed), ScopeId::MODULE);
        inner.receiver = env.receiver;
        Some((inner, root))
    }
}

/// Where a docstring gives the type of a parameter: reStructuredText fields, Google and NumPy style.
fn documented_type(doc: &str, name: &str) -> Option<(usize, usize)> {
    let mut line_start = 0;
    for line in doc.split_inclusive('\n') {
        let at = line_start;
        line_start += line.len();
        let body = line.trim();
        let lead = line.len() - line.trim_start().len();
        if !body.contains(name) || body.len() > 200 {
            continue;
        }
        // :type name: T
        if let Some(rest) = body.strip_prefix(":type ")
            && let Some(ty) = rest.strip_prefix(name).and_then(|r| r.strip_prefix(':'))
        {
            return place(line, at, ty.trim());
        }
        // :param T name: text
        if let Some(rest) = body.strip_prefix(":param ")
            && let Some((head, _)) = rest.split_once(':')
            && let Some(ty) = head.strip_suffix(name).filter(|t| t.ends_with(' '))
            && !ty.trim().is_empty()
        {
            return place(line, at, ty.trim());
        }
        if let Some(rest) = body.strip_prefix(name) {
            // name : T
            if let Some(ty) = rest.strip_prefix(" : ") {
                return place(line, at, ty.trim());
            }
            // name (T): text
            if lead > 0
                && let Some(rest) = rest.trim_start().strip_prefix('(')
                && let Some((ty, _)) = rest.split_once("):")
            {
                return place(line, at, ty.trim());
            }
        }
    }
    None
}

fn place(line: &str, line_start: usize, ty: &str) -> Option<(usize, usize)> {
    let within = ty.as_ptr() as usize - line.as_ptr() as usize;
    (!ty.is_empty() && ty.len() <= TYPE_BYTES_MAX).then_some((line_start + within, ty.len()))
}

/// The parts of `A or B`, `A | B`, `A, optional`, `{A, B}` with their offsets.
fn alternatives(text: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    for part in text.split([',', '|', '{', '}', '(', ')']).flat_map(|p| p.split(" or ")) {
        let word = part.trim().trim_matches('`').trim_start_matches(":class:").trim_matches('`');
        if !word.is_empty() {
            out.push((word.as_ptr() as usize - text.as_ptr() as usize, word));
        }
    }
    out
}

/// Words that docstrings use for built-in types.
fn described(word: &str) -> Option<Name> {
    Some(match word {
        "string" | "str" | "text" => Name::STR,
        "integer" | "int" => Name::INT,
        "float" => Name::FLOAT,
        "boolean" | "bool" => Name::BOOL,
        "bytes" => Name::BYTES,
        "list" => Name::LIST,
        "dict" | "dictionary" => Name::DICT,
        "tuple" => Name::TUPLE,
        "set" => Name::SET_TYPE,
        _ => return None,
    })
}

fn is_dotted(word: &str) -> bool {
    word.split('.').all(crate::repo::library::is_identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_in_docstrings_of_every_style() {
        let find =
            |doc: &str| documented_type(doc, "size").map(|(at, n)| doc[at..at + n].to_owned());
        assert_eq!(
            find("\"\"\"Doc.\n\n    :param size: how big\n    :type size: int\n"),
            Some("int".to_owned())
        );
        assert_eq!(find("\"\"\"Doc.\n\n    :param int size: how big\n"), Some("int".to_owned()));
        assert_eq!(
            find("\"\"\"Doc.\n\n    Args:\n        size (int): how big\n"),
            Some("int".to_owned())
        );
        assert_eq!(find("\"\"\"Doc.\n\n    size : int or None\n"), Some("int or None".to_owned()));
        assert_eq!(find("\"\"\"The size of it.\"\"\""), None);
        let words: Vec<&str> =
            alternatives("str or Path, optional").into_iter().map(|(_, w)| w).collect();
        assert_eq!(words, ["str", "Path", "optional"]);
    }
}
