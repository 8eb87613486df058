//! Findings as SARIF, the format that code hosts and editors read.
//!
//! # Place
//! Part of the checker; knows no files, only findings.
//! # Sources
//! OASIS SARIF 2.1.0 (2020-03-27), sections 3.13 to 3.52; columns count Unicode code points.

use super::finding::Finding;
use super::message::Message;
use serde_json::{Value, json};
use std::path::Path;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// A log with one run. Paths below `root` are written relative to it.
pub fn to_sarif(findings: &[Finding], root: &Path, tool: &str, version: &str) -> Value {
    let rules: Vec<Value> = Message::ALL.into_iter().map(rule).collect();
    let results: Vec<Value> = findings.iter().map(|f| result(f, root)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": tool, "version": version, "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": { "ROOT": { "uri": folder_uri(root) } },
            "results": results,
        }],
    })
}

fn rule(message: Message) -> Value {
    json!({
        "id": message.id(),
        "name": message.symbol(),
        "shortDescription": { "text": message.meaning() },
        "defaultConfiguration": { "level": "error" },
    })
}

fn result(finding: &Finding, root: &Path) -> Value {
    let location = match finding.path.strip_prefix(root) {
        Ok(inside) => json!({ "uri": uri(inside), "uriBaseId": "ROOT" }),
        Err(_) => json!({ "uri": format!("file://{}", uri(&finding.path)) }),
    };
    let rule_idx = Message::ALL.iter().position(|m| *m == finding.message);
    let mut region = json!({
        "startLine": finding.start.line,
        "startColumn": finding.start.col,
    });
    if finding.end > finding.start {
        region["endLine"] = json!(finding.end.line);
        region["endColumn"] = json!(finding.end.col);
    }
    let mut physical = json!({ "physicalLocation": {
        "artifactLocation": location,
        "region": region,
    }});
    if !finding.object.is_empty() {
        let name = format!("{}.{}", finding.module, finding.object);
        physical["logicalLocations"] = json!([{ "fullyQualifiedName": name }]);
    }
    json!({
        "ruleId": finding.message.id(),
        "ruleIndex": rule_idx,
        "level": "error",
        "message": { "text": finding.text },
        "locations": [physical],
    })
}

fn folder_uri(root: &Path) -> String {
    format!("file://{}/", uri(root).trim_end_matches('/'))
}

/// A path with what a URI does not allow escaped (RFC 3986).
fn uri(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
