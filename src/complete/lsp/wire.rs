//! The messages of the Language Server Protocol that are used here, and the answers to what a server
//! asks of its client.
//!
//! # Place
//! Part of `complete::lsp`. Knows JSON, knows no process and no completion.
//! # Sources
//! JSON-RPC 2.0; Language Server Protocol 3.17 (read 2025-11).

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::process::Route;
use super::encoding::Encoding;

/// `MethodNotFound` of JSON-RPC.
const METHOD_NOT_FOUND: i64 = -32601;
/// The document changed or the server changed its mind: asking again may help.
const CONTENT_MODIFIED: i64 = -32801;
const SERVER_CANCELLED: i64 = -32802;

/// A response to one of our requests; `frame` is the whole message, read by who knows its shape.
pub(super) struct Response {
    pub id: u64,
    pub error: Option<ResponseError>,
    pub frame: Vec<u8>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponseError {
    #[serde(default)]
    pub code: i64,
    #[serde(default)]
    pub message: String,
}

impl ResponseError {
    pub(super) fn may_be_asked_again(&self) -> bool {
        matches!(self.code, CONTENT_MODIFIED | SERVER_CANCELLED)
    }
}

/// The `result` of a response, in the shape that is expected.
///
/// # Errors
/// When it has another shape.
pub(super) fn result<'a, T: Deserialize<'a>>(frame: &'a [u8]) -> Result<T, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(bound = "T: Deserialize<'de>")]
    struct Frame<T> {
        result: T,
    }
    serde_json::from_slice::<Frame<T>>(frame).map(|frame| frame.result)
}

#[derive(Deserialize)]
struct Envelope {
    id: Option<Value>,
    method: Option<String>,
    error: Option<ResponseError>,
}

/// Sort one message: responses go to who asked, requests are answered, notifications dropped.
pub(super) fn route(frame: Vec<u8>, settings: &Value, folders: &Value) -> Route<Response> {
    let envelope: Envelope = match serde_json::from_slice(&frame) {
        Ok(envelope) => envelope,
        Err(problem) => return Route::Garbage(format!("it wrote no JSON-RPC message: {problem}")),
    };
    match (envelope.method, envelope.id) {
        (Some(method), Some(id)) => Route::Reply(reply(&method, &id, &frame, settings, folders)),
        (Some(_), None) => Route::Drop,
        (None, Some(id)) => match id.as_u64() {
            Some(id) => {
                Route::Forward { id, message: Response { id, error: envelope.error, frame } }
            }
            None => Route::Drop,
        },
        (None, None) => Route::Garbage("a message is neither question nor answer".to_owned()),
    }
}

/// The answer to a server's request.
fn reply(method: &str, id: &Value, frame: &[u8], settings: &Value, folders: &Value) -> Vec<u8> {
    let result = match method {
        "workspace/configuration" => configuration(frame, settings),
        "workspace/workspaceFolders" => folders.clone(),
        "workspace/applyEdit" => json!({"applied": false, "failureReason": "read only"}),
        "window/showDocument" => json!({"success": false}),
        "client/registerCapability"
        | "client/unregisterCapability"
        | "window/workDoneProgress/create"
        | "window/showMessageRequest" => Value::Null,
        _ if method.starts_with("workspace/") && method.ends_with("/refresh") => Value::Null,
        _ => {
            let error = json!({"code": METHOD_NOT_FOUND, "message": format!("no method {method}")});
            return bytes(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    bytes(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// One value per item that is asked for: the settings below its dotted section, or null.
fn configuration(frame: &[u8], settings: &Value) -> Value {
    #[derive(Deserialize)]
    struct Question {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        section: Option<String>,
    }
    let Ok(question) = serde_json::from_slice::<Question>(frame) else {
        return json!([]);
    };
    let section = |item: Item| match item.section.as_deref() {
        None | Some("") => settings.clone(),
        Some(path) => {
            let found = path.split('.').try_fold(settings, |at, key| at.get(key));
            found.cloned().unwrap_or(Value::Null)
        }
    };
    Value::Array(question.params.items.into_iter().map(section).collect())
}

pub(super) fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'a str,
        id: u64,
        method: &'a str,
        params: &'a P,
    }
    bytes(&Request { jsonrpc: "2.0", id, method, params })
}

pub(super) fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'a str,
        method: &'a str,
        params: &'a P,
    }
    bytes(&Notification { jsonrpc: "2.0", method, params })
}

/// A request or notification whose method takes no parameters: some servers refuse `null`.
pub(super) fn bare(id: Option<u64>, method: &str) -> Vec<u8> {
    match id {
        Some(id) => bytes(&json!({"jsonrpc": "2.0", "id": id, "method": method})),
        None => bytes(&json!({"jsonrpc": "2.0", "method": method})),
    }
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("maps with text keys always serialise")
}

/// The parameters of `initialize`.
pub(super) fn initialize(root: &Path, options: &Value) -> Value {
    json!({
        "processId": std::process::id(),
        "clientInfo": {"name": "tether", "version": env!("CARGO_PKG_VERSION")},
        "rootUri": uri(root),
        "workspaceFolders": folders(root),
        "initializationOptions": options,
        "capabilities": {
            "general": {"positionEncodings": Encoding::OFFERED},
            "workspace": {
                "configuration": true,
                "workspaceFolders": true,
                "didChangeConfiguration": {"dynamicRegistration": false},
            },
            "textDocument": {
                "synchronization": {"dynamicRegistration": false},
                "completion": {
                    "dynamicRegistration": false,
                    "contextSupport": true,
                    "completionItem": {
                        "snippetSupport": false,
                        "documentationFormat": ["plaintext"],
                        "deprecatedSupport": true,
                    },
                    "completionItemKind": {"valueSet": (1..=25).collect::<Vec<u8>>()},
                },
            },
        },
    })
}

pub(super) fn folders(root: &Path) -> Value {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    json!([{"uri": uri(root), "name": name}])
}

/// The `file:` address of an absolute path: every byte outside the unreserved set is escaped, so paths
/// that are no UTF-8 keep their bytes.
pub(super) fn uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = "file://".to_owned();
    for &b in path.as_os_str().as_bytes() {
        if b.is_ascii_alphanumeric() || b"/-._~".contains(&b) {
            uri.push(b as char);
        } else {
            uri.push_str(&format!("%{b:02X}"));
        }
    }
    uri
}

/// What `initialize` tells about the server.
#[derive(Deserialize)]
pub(super) struct Initialized {
    #[serde(default)]
    pub capabilities: Capabilities,
    #[serde(rename = "serverInfo")]
    pub server_info: Option<ServerInfo>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Capabilities {
    pub position_encoding: Option<String>,
    pub completion_provider: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct ServerInfo {
    pub name: String,
    pub version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(frame: &str, expected: &str) {
        let settings = json!({"python": {"analysis": {"indexing": false}}});
        let folders = folders(Path::new("/p"));
        let got = match route(frame.as_bytes().to_vec(), &settings, &folders) {
            Route::Forward { id, message } => format!("answer {id} {:?}", message.error),
            Route::Reply(bytes) => {
                let reply: Value = serde_json::from_slice(&bytes).expect("JSON");
                let id = &reply["id"];
                match reply.get("result") {
                    Some(result) => format!("{id} {result}"),
                    None => format!("{id} error {}", reply["error"]["code"]),
                }
            }
            Route::Drop => "dropped".to_owned(),
            Route::Garbage(problem) => format!("garbage {problem}"),
        };
        assert!(got.starts_with(expected), "{got:?} is not {expected:?}");
    }

    #[test]
    fn what_a_server_asks_is_answered() {
        let ask = |method: &str| format!(r#"{{"id":"a","method":"{method}","params":{{}}}}"#);
        check(&ask("client/registerCapability"), r#""a" null"#);
        check(&ask("window/workDoneProgress/create"), r#""a" null"#);
        check(&ask("workspace/inlayHint/refresh"), r#""a" null"#);
        check(&ask("workspace/workspaceFolders"), r#""a" [{"uri":"file:///p","name":"p"}]"#);
        check(&ask("workspace/applyEdit"), r#""a" {"applied":false"#);
        check(&ask("workspace/configuration"), r#""a" []"#);
        check(&ask("surprise/me"), r#""a" error -32601"#);
    }

    #[test]
    fn configuration_is_given_by_section_and_null_where_there_is_none() {
        check(
            r#"{"id":7,"method":"workspace/configuration","params":{"items":[
                {"section":"python.analysis"},{"section":"other"},{"scopeUri":"file:///p"}]}}"#,
            r#"7 [{"indexing":false},null,{"python":{"analysis":{"indexing":false}}}]"#,
        );
    }

    #[test]
    fn answers_are_forwarded_notifications_dropped_and_the_rest_is_garbage() {
        check(r#"{"id":3,"result":{"deep":[1]}}"#, "answer 3 None");
        check(r#"{"id":3,"error":{"code":-32801,"message":"m"}}"#, "answer 3 Some");
        check(r#"{"id":null,"error":{"code":1,"message":"m"}}"#, "garbage");
        check(r#"{"method":"window/logMessage","params":{}}"#, "dropped");
        check(r#"{"id":"theirs","result":1}"#, "dropped");
        check(r#""hello""#, "garbage");
        check(&"[".repeat(100_000), "garbage");
        check("{}", "garbage");
    }

    #[test]
    fn paths_keep_every_byte_in_their_address() {
        assert_eq!(uri(Path::new("/a b/é#?.py")), "file:///a%20b/%C3%A9%23%3F.py");
    }

    proptest::proptest! {
        #[test]
        fn any_frame_is_sorted_without_a_panic(frame in r#"[\[\]{}":,0-9a-z ]{0,60}"#) {
            let _ = route(frame.into_bytes(), &Value::Null, &Value::Null);
        }

        #[test]
        fn any_question_gets_an_answer_with_its_id(
            method in "(workspace|window|client)/[a-zA-Z]{0,12}",
            section in "[a-z.]{0,12}",
        ) {
            let frame = json!({"id": 5, "method": method, "params": {"items": [{"section": section}]}});
            let Route::Reply(reply) = route(bytes(&frame), &json!({"a": {"b": 1}}), &json!([])) else {
                panic!("{method} got no reply");
            };
            let reply: Value = serde_json::from_slice(&reply).expect("JSON");
            assert_eq!(reply["id"], 5);
            assert!(reply.get("result").is_some() != reply.get("error").is_some());
        }
    }
}
