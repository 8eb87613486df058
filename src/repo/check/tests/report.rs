//! What a finding says, and its form as SARIF.

use crate::repo::check::{Message, MessageSet, to_sarif};

#[test]
fn a_finding_says_where_it_is_and_what_it_is_about() {
    let dir = tempfile::tempdir().unwrap();
    super::write_files(
        dir.path(),
        "#- pk/__init__.py\n#- pk/a.py\nclass K:\n    def f(self):\n        é = self.gone\n        return é\n",
    );
    let report = super::checked(dir.path());
    let [found] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((found.start.line, found.start.col, found.end.col), (3, 18, 22));
    assert_eq!((found.module.as_str(), found.object.as_str()), ("pk.a", "K.f"));
    assert_eq!(found.names, ["K", "gone"]);
    assert!(
        found
            .to_string()
            .ends_with("a.py:3:18: E1101: instance of 'K' has no member 'gone' (no-member)")
    );
}

#[test]
fn messages_are_named_by_id_symbol_category_and_all() {
    for message in Message::ALL {
        let only: MessageSet = [message].into_iter().collect();
        assert_eq!(MessageSet::named(message.id()), only);
        assert_eq!(MessageSet::named(message.symbol()), only);
    }
    assert_eq!(MessageSet::named("all"), MessageSet::all());
    assert_eq!(MessageSet::named("line-too-long"), MessageSet::EMPTY);
    assert_eq!(MessageSet::all().iter().count(), Message::ALL.len());
}

/// The parts of the SARIF 2.1.0 schema that a consumer relies on.
#[test]
fn sarif_has_the_shape_of_its_schema() {
    let dir = tempfile::tempdir().unwrap();
    super::write_files(dir.path(), "print(gone)\nprint('a'.gone)\n#- sub dir/b.py\nx = = 1\n");
    let report = super::checked(dir.path());
    assert_eq!(report.findings.len(), 3);
    let root = dir.path().canonicalize().unwrap();
    let log = to_sarif(&report.findings, &root, "tether", "1.2.3");
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().starts_with("https://"));
    let runs = log["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let driver = &runs[0]["tool"]["driver"];
    assert!(driver["name"].is_string() && driver["version"].is_string());
    let rules = driver["rules"].as_array().unwrap();
    let ids: Vec<&str> = rules.iter().map(|r| r["id"].as_str().unwrap()).collect();
    let mut unique = ids.clone();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "rule ids are unique");
    assert_eq!(runs[0]["columnKind"], "unicodeCodePoints");
    let base = runs[0]["originalUriBaseIds"]["ROOT"]["uri"].as_str().unwrap();
    assert!(base.starts_with("file:///") && base.ends_with('/'), "{base}");
    for result in runs[0]["results"].as_array().unwrap() {
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(ids[index], result["ruleId"]);
        assert_eq!(result["level"], "error");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.contains([' ', '\\']) && !uri.starts_with('/'), "{uri}");
        assert_eq!(place["artifactLocation"]["uriBaseId"], "ROOT");
        for key in ["startLine", "startColumn"] {
            assert!(place["region"][key].as_u64().unwrap() >= 1, "{key}");
        }
    }
    assert!(log.to_string().contains("sub%20dir/b.py"));
}
