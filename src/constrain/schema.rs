//! JSON schemas made ready for the grammar engine: what means nothing goes, what it reads loosely is said
//! exactly.
//!
//! # Place
//! Uses nothing but JSON. Part of the grammar compiler.
//! # Invariants
//! The prepared schema allows no instance that the given one forbids. It may allow fewer: leap seconds and
//! internationalised host names are left out.
//! # Sources
//! JSON Schema 2020-12, validation and core; RFC 3339 (date and time), RFC 1123 and RFC 5891 4.2.3.1 (host
//! names: no hyphens in the third and fourth place).

use serde_json::{Map, Value, json};

/// Keywords whose value is a schema.
const ONE: [&str; 11] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords whose value is a list of schemas (`items` was one, before 2020-12).
const LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords whose value maps names to schemas.
const MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// Keywords whose value is a count.
const COUNTS: [&str; 8] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];

const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])\
|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))\
|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
const TIME: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?\
(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const LABEL: &str = "(?:[a-zA-Z0-9]|[a-zA-Z0-9]{2}|[a-zA-Z0-9][a-zA-Z0-9-][a-zA-Z0-9]\
|[a-zA-Z0-9][a-zA-Z0-9-][a-zA-Z0-9-][a-zA-Z0-9]\
|[a-zA-Z0-9][a-zA-Z0-9-](?:[a-zA-Z0-9][a-zA-Z0-9-]|-[a-zA-Z0-9])[a-zA-Z0-9-]{0,58}[a-zA-Z0-9])";
/// Longest host name.
const HOSTNAME_MAX: u64 = 253;

/// Prepare a schema and everything inside it. The nesting must be known to be shallow.
pub(super) fn prepare(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    drop_idle(object);
    whole_counts(object);
    exact_format(object);
    for keyword in ONE {
        if let Some(inner) = object.get_mut(keyword) {
            prepare(inner);
        }
    }
    for keyword in LISTS {
        if let Some(Value::Array(list)) = object.get_mut(keyword) {
            list.iter_mut().for_each(prepare);
        }
    }
    for keyword in MAPS {
        if let Some(Value::Object(map)) = object.get_mut(keyword) {
            map.values_mut().for_each(prepare);
        }
    }
}

/// Remove keywords that forbid nothing where they stand.
fn drop_idle(object: &mut Map<String, Value>) {
    let has = |keyword: &str| object.contains_key(keyword);
    let is = |keyword: &str, value: bool| object.get(keyword) == Some(&Value::Bool(value));
    let mut idle: Vec<&str> = Vec::new();
    if !has("if") {
        idle.extend(["then", "else"]);
    } else if !has("then") && !has("else") {
        idle.push("if");
    }
    if !has("contains") {
        idle.extend(["minContains", "maxContains"]);
    }
    if is("uniqueItems", false) {
        idle.push("uniqueItems");
    }
    if is("not", false) {
        idle.push("not");
    }
    for keyword in ["propertyNames", "unevaluatedItems", "unevaluatedProperties"] {
        if is(keyword, true) {
            idle.push(keyword);
        }
    }
    for keyword in idle {
        object.shift_remove(keyword);
    }
}

/// Write counts such as `2.0` as whole numbers, which they are to JSON Schema.
fn whole_counts(object: &mut Map<String, Value>) {
    for keyword in COUNTS {
        if let Some(count) = object.get_mut(keyword)
            && let (false, Some(number)) = (count.is_u64(), count.as_f64())
            && number.fract() == 0.0
            && (0.0..9e15).contains(&number)
        {
            *count = json!(number as u64);
        }
    }
}

/// Say formats that the grammar engine reads too loosely as patterns.
fn exact_format(object: &mut Map<String, Value>) {
    let exact = match object.get("format").and_then(Value::as_str) {
        Some("date") => json!({ "pattern": format!("^{DATE}$") }),
        Some("time") => json!({ "pattern": format!("^{TIME}$") }),
        Some("date-time") => json!({ "pattern": format!("^{DATE}[Tt]{TIME}$") }),
        Some("hostname") => json!({
            "pattern": format!("^{LABEL}(?:\\.{LABEL})*$"),
            "maxLength": HOSTNAME_MAX,
        }),
        _ => return,
    };
    object.shift_remove("format");
    let Value::Object(exact) = exact else {
        return; // unreachable: written above as objects
    };
    if exact.keys().any(|key| object.contains_key(key)) {
        let all = object.entry("allOf").or_insert_with(|| json!([]));
        if let Value::Array(list) = all {
            list.push(Value::Object(exact));
        }
    } else {
        object.extend(exact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mut schema: Value, prepared: Value) {
        prepare(&mut schema);
        assert_eq!(schema, prepared);
    }

    #[test]
    fn keywords_that_mean_nothing_go_and_others_stay() {
        check(json!({ "then": false, "else": false, "type": "null" }), json!({ "type": "null" }));
        check(json!({ "if": false }), json!({}));
        check(json!({ "if": true, "then": {} }), json!({ "if": true, "then": {} }));
        check(json!({ "items": { "uniqueItems": false } }), json!({ "items": {} }));
        check(json!({ "uniqueItems": true }), json!({ "uniqueItems": true }));
        check(
            json!({ "anyOf": [{ "unevaluatedProperties": true, "not": false }] }),
            json!({ "anyOf": [{}] }),
        );
        check(json!({ "minContains": 2 }), json!({}));
        check(
            json!({ "contains": {}, "minContains": 2.0 }),
            json!({ "contains": {}, "minContains": 2 }),
        );
        check(json!({ "maxLength": 2.5 }), json!({ "maxLength": 2.5 }));
    }

    #[test]
    fn names_and_constants_that_look_like_keywords_are_left_alone() {
        for schema in [
            json!({ "const": { "then": 1, "format": "date" } }),
            json!({ "enum": [{ "uniqueItems": false }] }),
            json!({ "properties": { "then": { "type": "null" }, "minLength": {} } }),
            json!({ "default": { "format": "date" } }),
        ] {
            check(schema.clone(), schema);
        }
    }

    #[test]
    fn an_exact_format_stands_beside_what_is_there() {
        let mut schema = json!({ "format": "hostname", "pattern": "^a" });
        prepare(&mut schema);
        assert_eq!(schema["pattern"], "^a");
        assert_eq!(schema["allOf"][0]["maxLength"], 253);
        let mut schema = json!({ "items": { "format": "date" } });
        prepare(&mut schema);
        assert!(schema["items"]["format"].is_null() && schema["items"]["pattern"].is_string());
    }
}
