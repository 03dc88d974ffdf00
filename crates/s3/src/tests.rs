//! Against a small server of ours that speaks enough of the protocol, lists two keys at a time, and at seeded moments answers
//! 500 or hangs up, before or after it did what it was asked. Cannot catch: what real servers make of a signature.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use laxity_state::{Draft, Manifest, Mirror, StateFolder};
use tempfile::tempdir;

use super::*;

#[derive(Default)]
struct Server {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    asked: AtomicU64,
    /// Every so many requests one fails; 0 is never.
    fails_in: AtomicU64,
}

struct Asked {
    method: String,
    /// Without the bucket.
    key: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Asked {
    fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length: &String| length.parse().unwrap());
        assert!(!headers.contains_key("transfer-encoding"), "S3 takes no body of unknown length");
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap();
        let path = unescaped(path);
        let key = path.strip_prefix("/bucket/").or_else(|| path.strip_prefix("/bucket")).unwrap().to_owned();
        Some(Asked { method, key, query: query.to_owned(), headers, body })
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(of, _)| *of == name).map(|(_, value)| unescaped(value))
    }
}

impl Server {
    fn start() -> (Arc<Server>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Arc::new(Server::default());
        let of_thread = server.clone();
        // Ends with the tests.
        let _ = std::thread::Builder::new().spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = of_thread.clone();
                let _ = std::thread::Builder::new().spawn(move || server.serve(stream));
            }
        });
        (server, address)
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        while let Some(asked) = Asked::read(&mut reader) {
            let number = self.asked.fetch_add(1, Relaxed);
            let fails_in = self.fails_in.load(Relaxed);
            let fails = fails_in > 0 && number.is_multiple_of(fails_in);
            let refuses = fails && (number / fails_in).is_multiple_of(3);
            let (status, body) = match refuses {
                true => {
                    (500, b"<Error><Code>InternalError</Code><Message>We fail.</Message></Error>".to_vec())
                }
                false => self.answer(&asked),
            };
            if fails && !refuses {
                return;
            }
            let head = format!("HTTP/1.1 {status} Some\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&body));
        }
    }

    fn answer(&self, asked: &Asked) -> (u16, Vec<u8>) {
        let signed = asked.parameter("X-Amz-SignedHeaders").unwrap();
        for name in
            ["if-none-match", "x-amz-copy-source"].iter().filter(|name| asked.headers.contains_key(**name))
        {
            assert!(signed.contains(name), "{signed}");
        }
        assert!(asked.parameter("X-Amz-Signature").is_some_and(|signature| signature.len() == 64));
        if asked.parameter("X-Amz-Credential").is_some_and(|key| key.starts_with("nobody")) {
            return (403, b"<Error><Code>AccessDenied</Code><Message>Not you.</Message></Error>".to_vec());
        }
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        match asked.method.as_str() {
            "GET" if asked.key.is_empty() => (200, list(&objects, asked)),
            "GET" => objects.get(&asked.key).map_or((404, Vec::new()), |bytes| (200, bytes.clone())),
            "DELETE" => {
                objects.remove(&asked.key);
                (204, Vec::new())
            }
            "PUT" if asked.headers.contains_key("if-none-match") && objects.contains_key(&asked.key) => {
                (412, b"<Error><Code>PreconditionFailed</Code></Error>".to_vec())
            }
            "PUT" => {
                let from = asked.headers.get("x-amz-copy-source").map(|from| unescaped(from));
                let from = from.map(|from| objects[from.strip_prefix("/bucket/").unwrap()].clone());
                objects.insert(asked.key.clone(), from.unwrap_or_else(|| asked.body.clone()));
                (200, Vec::new())
            }
            other => panic!("{other}"),
        }
    }
}

fn list(objects: &BTreeMap<String, Vec<u8>>, asked: &Asked) -> Vec<u8> {
    assert_eq!(asked.parameter("list-type").as_deref(), Some("2"));
    let prefix = asked.parameter("prefix").unwrap_or_default();
    let from = asked.parameter("continuation-token").unwrap_or_default();
    let keys = objects.keys().filter(|key| key.starts_with(&prefix) && **key >= from);
    let keys: Vec<&String> = keys.take(3).collect();
    let mut text = String::from("<ListBucketResult>");
    keys.iter().take(2).for_each(|key| text += &format!("<Contents><Key>{}</Key></Contents>", escaped(key)));
    if let Some(next) = keys.get(2) {
        text += &format!("<NextContinuationToken>{next}</NextContinuationToken>");
    }
    (text + "</ListBucketResult>").into_bytes()
}

fn store(address: &str, key: &str) -> S3 {
    let variables =
        [("AWS_ENDPOINT_URL", address), ("AWS_ACCESS_KEY_ID", key), ("AWS_SECRET_ACCESS_KEY", "hunter2")];
    let variable =
        |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
    S3::new("s3://bucket/some/prefix/", variable).unwrap()
}

#[test]
fn objects_are_put_listed_copied_and_removed() {
    let (server, address) = Server::start();
    server.objects.lock().unwrap().insert("some/other".into(), vec![]);
    let store = store(&address, "me");
    let names = ["a%2Fb/chk-1/x.arrow", "owner-1", "q~1/y z+ü", "z"];
    for name in names {
        assert_eq!(store.put_new(name, name.as_bytes()), Ok(true));
    }
    assert_eq!(store.put_new("z", b"other"), Ok(false));
    assert_eq!(store.list().unwrap(), names);
    assert_eq!(store.get("z").unwrap(), b"z");
    store.copy("a%2Fb/chk-1/x.arrow", "copied").unwrap();
    assert_eq!(store.get("copied").unwrap(), b"a%2Fb/chk-1/x.arrow");
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, [7; 100_000]).unwrap();
    store.put("z", &file).unwrap();
    assert_eq!(store.get("z").unwrap(), [7; 100_000]);
    store.remove("z").unwrap();
    store.remove("z").unwrap();
    let fault = store.get("z").unwrap_err();
    assert_eq!((fault.message.as_str(), fault.may_pass), ("z: answered 404", false));
}

#[test]
fn what_is_wrong_is_said_and_secrets_are_not() {
    let (server, address) = Server::start();
    let fault = store(&address, "nobody").list().unwrap_err();
    assert_eq!(
        (fault.message.as_str(), fault.may_pass),
        ("s3://bucket/some/prefix: answered 403 AccessDenied Not you.", false)
    );
    server.fails_in.store(1, Relaxed);
    let told: Vec<StoreFault> = (0..3).map(|_| store(&address, "me").get("x").unwrap_err()).collect();
    assert!(told.iter().all(|fault| fault.may_pass), "{told:?}");
    assert!(told.iter().any(|fault| fault.message == "x: answered 500 InternalError We fail."), "{told:?}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = store(&format!("http://{free}"), "me");
    let fault = silent.put_new("x", b"y").unwrap_err();
    let all = format!("{told:?} {fault:?} {silent:?}");
    assert!(fault.may_pass && !all.contains("hunter2") && !all.contains("Signature"), "{all}");

    let named = |address: &str, variables: &[&str]| {
        let variable = |name: &str| variables.contains(&name).then(|| "x".to_owned());
        S3::new(address, variable).unwrap_err().to_string()
    };
    let all = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    for address in ["gs://a/b", "s3://", "s3://a/../b"] {
        assert_eq!(named(address, &all), format!("'{address}' is no store: write 's3://BUCKET/PREFIX'"));
    }
    assert!(named("s3://a", &all[..1]).starts_with("AWS_SECRET_ACCESS_KEY is not set"));
    let endpoint = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"];
    assert_eq!(named("s3://a", &endpoint), "AWS_ENDPOINT_URL is no address: x");
}

#[test]
fn checkpoints_survive_a_server_that_fails() {
    let (server, address) = Server::start();
    server.fails_in.store(7, Relaxed);
    let mut written = 0;
    for life in 0..4 {
        // Another machine.
        let folder = tempdir().unwrap();
        let mirror = Mirror::begin(folder.path(), Arc::new(store(&address, "me"))).unwrap();
        let state = StateFolder::open_mirrored(folder.path(), Some(mirror)).unwrap();
        let query = state.query("a/b");
        let found = query.checkpoints().unwrap().whole;
        assert_eq!(found.first().map_or(0, |last| last.manifest.checkpoint), written, "life {life}");
        for number in written + 1..=written + 5 {
            let manifest = Manifest { query: "a/b".into(), checkpoint: number, ..Manifest::default() };
            query.write(Draft { manifest, ..Draft::default() }).unwrap();
            query.keep_last(3).unwrap();
        }
        written += 5;
    }
    assert!(server.asked.load(Relaxed) > 100);
}
