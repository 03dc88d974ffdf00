//! Records of `avro-confluent` of several writers, and what the registry may answer, by a server of a few lines. Cannot
//! catch: what real registries do otherwise; `make kafka-test` asks one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use arrow::array::{Array, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, TimeUnit};

use super::*;
use crate::{Direction, RecordFormat, TableSpec};

/// Answers by path; what was asked, with its header `Authorization` and its body.
fn serve(answers: Vec<(&'static str, u16, &'static str)>) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, receiver) = std::sync::mpsc::channel();
    let serve = move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut authorization, mut length) = (String::new(), String::new(), 0);
            stream.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.trim();
                match line.split_once(": ").map(|(key, value)| (key.to_lowercase(), value)) {
                    Some((key, value)) if key == "authorization" => value.clone_into(&mut authorization),
                    Some((key, value)) if key == "content-length" => length = value.parse().unwrap(),
                    _ => {}
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let path = first.split(' ').nth(1).unwrap_or_default();
            let answer = answers.iter().find(|(known, ..)| *known == path);
            let (_, status, text) = answer.unwrap_or(&("", 404, "{}"));
            let head =
                format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
            let body = String::from_utf8(body).unwrap();
            // Before who asked can go on.
            if asked.send(format!("{} {authorization} {body}", first.trim_end())).is_err() {
                return;
            }
            stream.get_mut().write_all((head + text).as_bytes()).unwrap();
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    (url, receiver)
}

fn fields() -> Vec<Field> {
    vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("v", DataType::Float64, true),
    ]
}

fn read(fields: Vec<Field>, options: &[(&str, &str)]) -> Result<RecordFormat, OptionError> {
    let schema = Arc::new(Schema::new(fields));
    let mut all = BTreeMap::from([("topic", "orders"), ("value.format", "avro-confluent")]);
    all.extend(options.iter().copied());
    let options: BTreeMap<String, String> =
        all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let table = TableSpec { name: "t".into(), schema: Arc::clone(&schema), options, base: PathBuf::new() };
    let reader = OptionReader::new(&table).scoped("value.");
    RecordFormat::read(&reader, "format", &schema, Direction::Read)
}

fn of_registry(url: &str, more: &[(&str, &str)]) -> RecordFormat {
    read(fields(), &[&[("value.avro-confluent.url", url)], more].concat()).unwrap()
}

/// Rows `id, name` as a writer of this schema makes them, with the number of it in front.
fn written(id: u32, json: &str, rows: &[(i64, Option<&str>)], records: &mut Records) {
    let columns = Schema::new(fields()[..2].to_vec());
    let batch = RecordBatch::try_new(
        Arc::new(columns.clone()),
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
            Arc::new(StringArray::from_iter(rows.iter().map(|row| row.1))),
        ],
    );
    let mut bare = Records::default();
    AvroEncoder::new(&columns, json).unwrap().encode(&batch.unwrap(), &mut bare).unwrap();
    for record in 0..bare.len() {
        records.push(Some(&[&header(id), bare.get(record)].concat()));
    }
}

const PLAIN: &str = r#"{"type":"record","name":"a","fields":[{"name":"id","type":"long"},{"name":"name","type":["null","string"]}]}"#;
/// Another name, another order, a number that becomes wider, and a field that nobody here has.
const OTHER: &str = r#"{"type":"record","name":"b","namespace":"x","fields":[{"name":"name","type":["string","null"]},
    {"name":"v","type":["null","float"]},{"name":"id","type":"long"},{"name":"extra","type":["null",{"type":"array","items":"string"}]}]}"#;

#[test]
fn each_writer_is_read_by_its_own_schema() {
    let answer = |json: &str| serde_json::json!({ "schema": json }).to_string().leak() as &str;
    let (url, asked) =
        serve(vec![("/schemas/ids/7", 200, answer(PLAIN)), ("/schemas/ids/300", 200, answer(OTHER))]);
    let format = of_registry(&url, &[]);
    let mut records = Records::default();
    written(7, PLAIN, &[(1, Some("a"))], &mut records);
    written(300, OTHER, &[(2, Some("b")), (3, None)], &mut records);
    written(7, PLAIN, &[(4, Some("d"))], &mut records);
    records.push(Some(b"no"));
    records.push(Some(&[0, 0, 0, 0, 9, 1]));
    written(300, OTHER, &[(5, None)], &mut records);
    let cut: Vec<u8> = records.get(0)[..6].to_vec();
    records.push(Some(&cut));

    let schemas = format.schemas().unwrap();
    for record in 0..records.len() {
        if let Some(number) = schemas.number(records.get(record)) {
            schemas.learn(number).unwrap();
        }
    }
    let mut bad = Vec::new();
    let rows = format.decoder(&[0, 1, 2]).decode(&records, 0..records.len(), &mut bad);
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3, 4, 5]);
    let names: Vec<Option<&str>> = rows.column(1).as_string::<i32>().iter().collect();
    assert_eq!(names, [Some("a"), Some("b"), None, Some("d"), None]);
    assert!(rows.column(2).as_primitive::<Float64Type>().is_null(1));
    let said: Vec<(usize, &str)> = bad.iter().map(|bad| (bad.index, bad.reason.as_str())).collect();
    assert_eq!(said[0].0, 4);
    assert_eq!(said[1], (5, "the registry has no schema 9"));
    assert_eq!((said[2].0, said.len()), (7, 3));
    // Columns that nobody reads are not decoded, and none may be read.
    let none = format.decoder(&[]).decode(&records, 0..4, &mut Vec::new());
    assert_eq!((none.num_rows(), none.num_columns()), (4, 0));
    let one = format.decoder(&[1]).decode(&records, 1..4, &mut Vec::new());
    assert_eq!(one.column(0).as_string::<i32>().value(2), "d");
    // Each number was asked for once.
    let paths: Vec<String> =
        asked.try_iter().map(|asked| asked.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(paths, ["/schemas/ids/7", "/schemas/ids/300", "/schemas/ids/9"]);
}

#[test]
fn what_does_not_fit_is_said_with_its_column() {
    let text = r#"{"type":"record","name":"a","fields":[{"name":"id","type":"string"}]}"#;
    let without = r#"{"type":"record","name":"a","fields":[{"name":"name","type":"string"}]}"#;
    let narrow =
        r#"{"type":"record","name":"a","fields":[{"name":"id","type":"long"},{"name":"v","type":"bytes"}]}"#;
    let columns = Arc::new(Schema::new(fields()));
    let said = |json: &str| Reading::new(json, Some(1), Arc::clone(&columns)).err().unwrap();
    assert_eq!(said(text), "column 'id' is Int64, and the writer's is Utf8");
    assert_eq!(said(without), "column 'id' is NOT NULL, and the writer's schema has no such field");
    assert_eq!(said(narrow), "column 'v' is Float64, and the writer's is Binary");
    assert!(said("{").contains("Avro schema"), "{}", said("{"));
    let (url, _asked) = serve(vec![("/schemas/ids/1", 200, r#"{"schema":"\"string\""}"#)]);
    let fault = of_registry(&url, &[]).schemas().unwrap().learn(1).unwrap_err();
    assert!(
        matches!(&fault, SchemaFault::End(why) if why.starts_with("schema 1 does not fit the table")),
        "{fault:?}"
    );
}

#[test]
fn nested_values_and_enumerations_find_their_fields() {
    let json = r#"{"type":"record","name":"o","fields":[
        {"name":"kind","type":{"type":"enum","name":"k","symbols":["A","B"]}},
        {"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
        {"name":"who","type":["null",{"type":"record","name":"p","fields":[{"name":"age","type":"int"},{"name":"x","type":"string"}]}]},
        {"name":"again","type":["null","p"]}]}"#;
    let person = |data_type| {
        let fields = vec![Field::new("age", DataType::Int64, true), Field::new("city", data_type, true)];
        DataType::Struct(fields.into())
    };
    let zone = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let columns = |of_city| {
        Arc::new(Schema::new(vec![
            Field::new("again", person(of_city), true),
            Field::new("at", zone.clone(), true),
            Field::new("kind", DataType::Utf8, true),
        ]))
    };
    let mut reading = Reading::new(json, Some(1), columns(DataType::Utf8)).unwrap();
    // Symbol 1, 5 ms, no `who`, a person of 3 years named "x".
    let datum = [&header(1)[..], &[2, 0x90, 0x4e, 0, 2, 6, 2, b'x']].concat();
    let mut records = Records::default();
    records.push(Some(&datum));
    let (mut bad, mut good) = (Vec::new(), Vec::new());
    let rows = reading.decode(&records, &[0], &mut bad, &mut good);
    assert_eq!((bad, good), (vec![], vec![0]));
    let again = rows.column(0).as_struct();
    assert_eq!(again.column(0).as_primitive::<Int64Type>().value(0), 3);
    assert!(again.column(1).is_null(0));
    assert_eq!(rows.column(1).as_primitive::<arrow::datatypes::TimestampMillisecondType>().value(0), 5);
    assert_eq!(rows.column(2).as_string::<i32>().value(0), "B");
}

#[test]
fn the_schema_that_is_registered_is_flinks() {
    let inner = DataType::Struct(vec![Field::new("b", DataType::Int32, false)].into());
    let columns = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("a", inner, true),
        Field::new("l", DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))), false),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]);
    let expected = serde_json::json!({
        "type": "record", "name": "record", "namespace": "org.apache.flink.avro.generated", "fields": [
            {"name": "id", "type": "long"},
            {"name": "a", "default": null, "type": ["null",
                {"type": "record", "name": "record_a", "fields": [{"name": "b", "type": "int"}]}]},
            {"name": "l", "type": {"type": "array", "items": ["null", "string"]}},
            {"name": "t", "default": null, "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        ]
    });
    let json_of = |columns: &Schema| schema::json_of(columns, Timestamps::Instant);
    let json: serde_json::Value = serde_json::from_str(&json_of(&columns)).unwrap();
    assert_eq!(json, expected);
    let local = schema::json_of(&columns, Timestamps::Local);
    assert!(local.contains(r#""logicalType":"local-timestamp-millis""#), "{local}");
    // All of it can be written and read again.
    let columns = Arc::new(columns);
    for json in [json_of(&columns), local] {
        AvroEncoder::new(&columns, &json).unwrap();
        Reading::new(&json, Some(1), Arc::clone(&columns)).map(drop).unwrap();
    }
}

#[test]
fn a_schema_is_registered_once_and_by_whom_it_says() {
    let (url, asked) = serve(vec![("/subjects/a%2Fb/versions", 200, r#"{"id": 258}"#)]);
    let user = [
        ("value.avro-confluent.subject", "a/b"),
        ("value.avro-confluent.basic-auth.credentials-source", "USER_INFO"),
        ("value.avro-confluent.basic-auth.user-info", "me:hunter2"),
    ];
    let format = of_registry(&url, &user);
    let schemas = format.schemas().unwrap();
    assert_eq!(schemas.header(), Ok(vec![0, 0, 0, 1, 2]));
    assert_eq!(schemas.header(), Ok(vec![0, 0, 0, 1, 2]));
    let all: Vec<String> = asked.try_iter().collect();
    // base64 of me:hunter2.
    assert!(all[0].contains("Basic bWU6aHVudGVyMg==") && all[0].contains(r#"\"name\":\"id\""#), "{all:?}");
    assert_eq!(all.len(), 1);
    assert!(!format!("{format:?}").contains("hunter2"));
    // Without a subject it is that of the topic.
    let (url, asked) = serve(vec![]);
    let with_user = url.replace("http://", "http://u:p@");
    let fault = of_registry(&with_user, &[]).schemas().unwrap().header().unwrap_err();
    assert!(matches!(&fault, SchemaFault::End(why) if why.contains("answered 404")), "{fault:?}");
    let asked = asked.try_iter().next().unwrap();
    assert!(asked.contains("/subjects/orders-value/versions") && asked.contains("Basic dTpw"), "{asked}");
}

#[test]
fn what_passes_is_asked_again_and_what_does_not_is_told() {
    let (url, _asked) = serve(vec![
        ("/schemas/ids/1", 503, ""),
        ("/schemas/ids/2", 401, r#"{"message":"who are you"}"#),
        ("/schemas/ids/3", 200, r#"{"schema":"x","schemaType":"PROTOBUF"}"#),
        ("/schemas/ids/4", 200, "<html>"),
        ("/subjects/orders-value/versions", 409, r#"{"message":"Schema being registered is incompatible"}"#),
    ]);
    let format = of_registry(&url, &[]);
    let schemas = format.schemas().unwrap();
    let fault = |number| schemas.learn(number).unwrap_err();
    assert_eq!(fault(1), SchemaFault::Again("answered 503".to_owned()));
    let SchemaFault::End(why) = fault(2) else { panic!() };
    assert!(why.starts_with("it answered 401: who are you; 'avro-confluent.basic-auth"), "{why}");
    schemas.learn(3).unwrap();
    assert!(matches!(fault(4), SchemaFault::End(_)));
    let SchemaFault::End(why) = schemas.header().unwrap_err() else { panic!() };
    assert!(why.contains("subject 'orders-value' does not take: Schema being registered"), "{why}");
    let mut records = Records::default();
    records.push(Some(&[0, 0, 0, 0, 3, 1]));
    let mut bad = Vec::new();
    format.decoder(&[0]).decode(&records, 0..1, &mut bad);
    assert_eq!(bad[0].reason, "schema 3 of the registry is PROTOBUF, not Avro");
    // Nobody listens at a port that was just free.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = of_registry(&format!("http://{free}"), &[]).schemas().unwrap().learn(1).unwrap_err();
    assert!(matches!(gone, SchemaFault::Again(_)), "{gone:?}");
}

#[test]
fn every_wrong_option_is_named() {
    let url = ("value.avro-confluent.url", "http://h:8081");
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "value.avro-confluent.url: missing"),
        (&[("value.avro-confluent.url", "h:8081")], "value.avro-confluent.url: 'h:8081' is no address"),
        (
            &[url, ("value.avro-confluent.basic-auth.credentials-source", "SASL_INHERIT")],
            "value.avro-confluent.basic-auth.credentials-source: 'SASL_INHERIT' is not known",
        ),
        (
            &[url, ("value.avro-confluent.basic-auth.credentials-source", "USER_INFO")],
            "value.avro-confluent.basic-auth.user-info: missing",
        ),
        (
            &[url, ("value.avro-confluent.basic-auth.credentials-source", "URL")],
            "value.avro-confluent.url: no USER:PASSWORD@",
        ),
        (
            &[url, ("value.avro-confluent.bearer-auth.credentials-source", "STATIC_TOKEN")],
            "value.avro-confluent.bearer-auth.token: missing",
        ),
        (
            &[url, ("value.avro-confluent.ssl.truststore.password", "x")],
            "value.avro-confluent.ssl.truststore.password: stores are PEM",
        ),
        (
            &[
                url,
                (
                    "value.avro-confluent.schema",
                    r#"{"type":"record","name":"r","fields":[{"name":"id","type":"string"}]}"#,
                ),
            ],
            "value.avro-confluent.schema: does not fit the columns: column 'id' is Int64",
        ),
        (&[url, ("value.avro-confluent.schema", PLAIN)], "nothing"),
    ];
    for (options, expected) in cases {
        let said = match read(fields(), options) {
            Ok(_) => "nothing".to_owned(),
            Err(error) => format!("{}: {}", error.key, error.message),
        };
        assert!(said.starts_with(expected), "{options:?}: {said}");
    }
    let nanoseconds = Field::new("t", DataType::Timestamp(TimeUnit::Nanosecond, None), true);
    assert!(read(vec![nanoseconds], &[url]).unwrap_err().message.contains("avro cannot hold column 't'"));
}
