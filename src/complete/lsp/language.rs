//! Which language a file is in, by the names that language servers use.
//!
//! # Place
//! Part of `complete::lsp`.
//! # Sources
//! Language Server Protocol 3.17, "Text Documents", table of language identifiers (read 2025-11).

use std::path::Path;

/// Extension (lower case) and language identifier.
const LANGUAGES: &[(&str, &str)] = &[
    ("py", "python"),
    ("pyi", "python"),
    ("pyw", "python"),
    ("rs", "rust"),
    ("ts", "typescript"),
    ("mts", "typescript"),
    ("cts", "typescript"),
    ("tsx", "typescriptreact"),
    ("js", "javascript"),
    ("mjs", "javascript"),
    ("cjs", "javascript"),
    ("jsx", "javascriptreact"),
    ("c", "c"),
    ("h", "c"),
    ("cc", "cpp"),
    ("cpp", "cpp"),
    ("cxx", "cpp"),
    ("hh", "cpp"),
    ("hpp", "cpp"),
    ("hxx", "cpp"),
    ("cu", "cuda-cpp"),
    ("cuh", "cuda-cpp"),
    ("m", "objective-c"),
    ("mm", "objective-cpp"),
    ("java", "java"),
    ("kt", "kotlin"),
    ("kts", "kotlin"),
    ("scala", "scala"),
    ("groovy", "groovy"),
    ("cs", "csharp"),
    ("fs", "fsharp"),
    ("vb", "vb"),
    ("go", "go"),
    ("rb", "ruby"),
    ("php", "php"),
    ("pl", "perl"),
    ("lua", "lua"),
    ("r", "r"),
    ("jl", "julia"),
    ("swift", "swift"),
    ("dart", "dart"),
    ("hs", "haskell"),
    ("ml", "ocaml"),
    ("mli", "ocaml.interface"),
    ("ex", "elixir"),
    ("exs", "elixir"),
    ("erl", "erlang"),
    ("clj", "clojure"),
    ("zig", "zig"),
    ("nim", "nim"),
    ("d", "d"),
    ("sh", "shellscript"),
    ("bash", "shellscript"),
    ("ps1", "powershell"),
    ("sql", "sql"),
    ("html", "html"),
    ("css", "css"),
    ("scss", "scss"),
    ("less", "less"),
    ("vue", "vue"),
    ("svelte", "svelte"),
    ("json", "json"),
    ("yaml", "yaml"),
    ("yml", "yaml"),
    ("toml", "toml"),
    ("xml", "xml"),
    ("md", "markdown"),
    ("tex", "latex"),
];

/// The language identifier of `path`; `plaintext` when its extension says nothing.
pub(super) fn language_id(path: &Path) -> &'static str {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let extension = extension.to_ascii_lowercase();
    let known = LANGUAGES.iter().find(|(known, _)| *known == extension);
    known.map_or("plaintext", |(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_follows_the_extension_whatever_its_case() {
        for (path, id) in [
            ("/a/b.py", "python"),
            ("/a/b.PYI", "python"),
            ("b.tsx", "typescriptreact"),
            ("/a/b.rs", "rust"),
            ("/a/py", "plaintext"),
            ("/a/b.", "plaintext"),
        ] {
            assert_eq!(language_id(Path::new(path)), id, "{path}");
        }
    }

    #[test]
    fn no_extension_is_listed_twice() {
        let mut extensions: Vec<_> = LANGUAGES.iter().map(|(e, _)| e).collect();
        extensions.sort_unstable();
        extensions.dedup();
        assert_eq!(extensions.len(), LANGUAGES.len());
    }
}
