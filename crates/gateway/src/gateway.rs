//! Flink's SQL gateway, 1.20 and 2.x: statements in, jobs out. Start with [`Gateway::find`].

use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use laxity_http::{Http, HttpError, Tls, Verb};

/// A gateway that answers.
#[derive(Debug)]
pub struct Gateway {
    http: Http,
    version: String,
}

/// Tables, views and settings that statements make stand here, and are gone with it; jobs stay.
#[derive(Debug)]
pub struct GatewaySession<'a> {
    gateway: &'a Gateway,
    handle: String,
}

/// A gateway is not there, or does not do what it is asked to.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Nobody there, or not somebody who speaks HTTP.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Somebody else is there.
    #[error(
        "{url} is no SQL gateway of Flink; one is started with sql-gateway.sh, beside the JobManager, whose own address is another"
    )]
    NoGateway {
        /// Where.
        url: String,
    },
    /// It was there before.
    #[error(
        "the gateway at {url} has lost the session: it was started again, or the session was idle for too long"
    )]
    SessionLost {
        /// Where.
        url: String,
    },
    /// Flink does not take a statement.
    #[error("{said}")]
    Refused {
        /// Its own words, the innermost cause.
        said: String,
    },
}

/// Versions whose gateway speaks the second version of its interface, in which all here is said.
const OLDEST: &str = "1.17";

/// Planning a large statement takes seconds, on a busy machine more, but is asked for and looked at apart.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Between looks at whether a statement is done.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "productName")]
    product_name: String,
    version: String,
}

impl Gateway {
    /// Sees that there is one.
    ///
    /// # Errors
    /// If nothing answers there, or something else.
    pub fn find(url: &str, tls: &Tls) -> Result<Gateway, GatewayError> {
        let http = Http::patient(url, tls, TIMEOUT);
        let (status, body) = http.ask("/info", Verb::Get)?;
        match serde_json::from_str::<Info>(&body) {
            Ok(info) if status == 200 && info.product_name == "Apache Flink" => {
                Ok(Gateway { http, version: info.version })
            }
            _ => Err(GatewayError::NoGateway { url: http.shown().to_owned() }),
        }
    }

    /// Its address, without a password that stands in it.
    pub fn shown(&self) -> &str {
        self.http.shown()
    }

    /// Of its Flink: `2.3.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Begins a session.
    ///
    /// # Errors
    /// If it makes none, or is older than 1.17.
    pub fn session(&self) -> Result<GatewaySession<'_>, GatewayError> {
        if older(&self.version, OLDEST) {
            let said = format!("Flink {} is older than {OLDEST}", self.version);
            return Err(GatewayError::Refused { said });
        }
        let wanted = json!({ "properties": { "execution.runtime-mode": "streaming" } });
        let answer = self.call("/v2/sessions", Verb::Post(&wanted))?;
        Ok(GatewaySession { gateway: self, handle: text(&answer, "sessionHandle") })
    }

    fn call(&self, path: &str, verb: Verb<'_>) -> Result<Value, GatewayError> {
        let (status, body) = self.http.ask(path, verb)?;
        let url = || self.http.shown().to_owned();
        if status == 200 {
            return serde_json::from_str(&body).map_err(|_| GatewayError::NoGateway { url: url() });
        }
        let said = innermost(&body);
        if lost_session(&said) {
            return Err(GatewayError::SessionLost { url: url() });
        }
        Err(GatewayError::Refused { said })
    }
}

impl GatewaySession<'_> {
    /// Executes one statement, and waits until its results are there: of an INSERT the id of its job.
    ///
    /// # Errors
    /// If Flink refuses it, or the session is lost.
    pub fn run(&self, statement: &str) -> Result<Option<String>, GatewayError> {
        let base = format!("/v2/sessions/{}", self.handle);
        let wanted = json!({ "statement": statement });
        let answer = self.gateway.call(&format!("{base}/statements"), Verb::Post(&wanted))?;
        let operation = format!("{base}/operations/{}", text(&answer, "operationHandle"));
        let answer = loop {
            let answer = self.gateway.call(&format!("{operation}/result/0?rowFormat=JSON"), Verb::Get)?;
            if answer["resultType"] != "NOT_READY" {
                break answer;
            }
            std::thread::sleep(PAUSE);
        };
        self.gateway.call(&format!("{operation}/close"), Verb::Delete)?;
        Ok(answer["jobID"].as_str().map(str::to_owned))
    }

    /// The address of the JobManager that its jobs run on, as the gateway knows it.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn job_manager(&self) -> Result<String, GatewayError> {
        let answer = self.gateway.call(&format!("/v2/sessions/{}", self.handle), Verb::Get)?;
        let of = |key: &str| answer["properties"][key].as_str().map(str::to_owned);
        let scheme =
            if of("security.ssl.rest.enabled").as_deref() == Some("true") { "https" } else { "http" };
        let host = of("rest.address").unwrap_or_else(|| "localhost".to_owned());
        let port = of("rest.port").unwrap_or_else(|| "8081".to_owned());
        Ok(format!("{scheme}://{host}:{port}"))
    }
}

impl Drop for GatewaySession<'_> {
    fn drop(&mut self) {
        // One that is left behind is closed by the gateway when it has been idle.
        let _ = self.gateway.call(&format!("/v2/sessions/{}", self.handle), Verb::Delete);
    }
}

fn text(answer: &Value, key: &str) -> String {
    answer[key].as_str().unwrap_or_default().to_owned()
}

fn older(version: &str, than: &str) -> bool {
    let parts = |text: &str| -> Vec<u32> { text.split('.').map_while(|part| part.parse().ok()).collect() };
    parts(version) < parts(than)
}

fn lost_session(said: &str) -> bool {
    said.starts_with("Session") && said.ends_with("does not exist.")
}

/// The last cause in the stack trace that a gateway answers with, without the name of its class.
fn innermost(body: &str) -> String {
    let errors = serde_json::from_str::<Value>(body).ok();
    let errors = errors.as_ref().and_then(|answer| answer["errors"].as_array());
    let said: Vec<&str> = errors.into_iter().flatten().filter_map(Value::as_str).collect();
    let all = if said.is_empty() { body.to_owned() } else { said.join("\n") };
    let class = Regex::new(
        r"^(?:Caused by: |<Exception on server side:\s*)?(?:[\w$]+\.)+[\w$]*(?:Exception|Error): ",
    );
    let class = class.expect("a pattern of ours");
    let mut cause: Option<Vec<&str>> = None;
    for line in all.lines() {
        if let Some(found) = class.find(line) {
            cause = Some(vec![&line[found.end()..]]);
        } else if let Some(cause) = &mut cause {
            // Frames end a message; lists of what there is stand in lines of their own.
            let is_over =
                line.starts_with("\tat ") || line.starts_with("\t...") || cause.last() == Some(&"\u{0}");
            cause.push(if is_over { "\u{0}" } else { line.trim() });
        }
    }
    let cause = cause.unwrap_or_else(|| vec![all.lines().next().unwrap_or_default()]);
    let words = cause
        .into_iter()
        .filter(|line| !line.is_empty() && *line != "\u{0}" && !line.starts_with("End of exc"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn of_a_stack_trace_the_innermost_cause_is_told() {
        let trace = "org.apache.flink.table.gateway.service.utils.SqlExecutionException: Failed to execute the operation x.\n\
                     \tat a.B.c(B.java:1)\nCaused by: org.apache.flink.table.api.ValidationException: Unable to create a source.\n\
                     \tat a.B.c(B.java:2)\n\t... 6 more\nCaused by: org.apache.flink.table.api.ValidationException: Could not find \
                     any factory for identifier 'kafka'.\n\nAvailable factory identifiers are:\n\nblackhole\nprint\n\tat a.B.d(B.java:3)\n\
                     \t... 9 more\n\nEnd of exception on server side>";
        let body =
            json!({ "errors": ["Internal server error.", format!("<Exception on server side:\n{trace}")] });
        assert_eq!(
            innermost(&body.to_string()),
            "Could not find any factory for identifier 'kafka'. Available factory identifiers are: blackhole print"
        );
        assert_eq!(innermost("bad gateway\n<html>"), "bad gateway");
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(older("1.9.1", OLDEST) && older("1.16.3", OLDEST));
        assert!(!older("1.20.5", OLDEST) && !older("2.3.0", OLDEST) && !older("2.4-SNAPSHOT", OLDEST));
    }

    /// Answers one request after the other.
    fn server(answers: Vec<(u16, String)>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::Builder::new().spawn(move || {
            let mut asked = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                asked.push(request.lines().next().unwrap_or_default().to_owned());
                let head = format!(
                    "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all((head + &body).as_bytes()).unwrap();
            }
            asked
        });
        (url, serving.unwrap())
    }

    #[test]
    fn a_session_that_is_lost_and_an_address_that_is_no_gateways_are_named() {
        let info = json!({ "productName": "Apache Flink", "version": "2.3.0" }).to_string();
        let trace = "<Exception on server side:\norg.apache.flink.table.gateway.service.SqlGatewayException: Session 'a1' does not exist.\n\tat a.B.c";
        let lost = json!({ "errors": ["Internal server error.", trace] }).to_string();
        let (url, serving) = server(vec![
            (200, info),
            (200, json!({ "sessionHandle": "a1" }).to_string()),
            (500, lost.clone()),
            (500, lost),
        ]);
        let gateway = Gateway::find(&url, &Tls::default()).unwrap();
        let session = gateway.session().unwrap();
        let error = session.run("SELECT 1").unwrap_err();
        assert!(matches!(error, GatewayError::SessionLost { .. }), "{error}");
        drop(session);
        let asked = serving.join().unwrap();
        assert_eq!(asked[2], "POST /v2/sessions/a1/statements HTTP/1.1");
        assert_eq!(asked[3], "DELETE /v2/sessions/a1 HTTP/1.1");

        let (url, serving) = server(vec![(404, json!({ "errors": ["Not found: /info"] }).to_string())]);
        let error = Gateway::find(&url, &Tls::default()).unwrap_err();
        assert!(matches!(error, GatewayError::NoGateway { .. }), "{error}");
        serving.join().unwrap();
        assert!(matches!(Gateway::find(&url, &Tls::default()), Err(GatewayError::Http(_))));
    }
}
