//! Messages worked out by hand, and random ones held against prost-reflect's own reading of them. Cannot catch: what
//! Flink would make of them otherwise; none runs here.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array, AsArray, Int32Array};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MapKey, ReflectMessage, Value};

use super::*;
use crate::{Direction, FieldWay, RecordFormat, TableSpec};

const PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
option java_package = "com.example.shop";
import "google/protobuf/timestamp.proto";
enum Kind { KIND_UNKNOWN = 0; KIND_SALE = 1; KIND_RETURN = 5; }
message Item { string sku = 1; sint32 count = 2; optional double price = 3; }
message Order {
  int64 id = 1;
  string name = 4;
  optional string note = 5;
  Kind kind = 6;
  Item first = 7;
  repeated Item items = 8;
  repeated sint64 scores = 9;
  map<string, int32> tags = 10;
  map<int32, Item> by_place = 20;
  oneof pay { string card = 11; int64 cash = 12; }
  google.protobuf.Timestamp at = 13;
  bool paid = 14; float f = 15; bytes raw = 16; fixed32 a = 17; sfixed64 b = 18; uint64 c = 19; repeated string names = 21;
  message Inner { int32 x = 1; }
}
"#;

const OLD_PROTO: &str = r#"
syntax = "proto2";
enum Size { SMALL = 3; LARGE = 4; }
message Box { required int32 n = 1; optional int32 w = 2 [default = 7]; optional Size size = 3; repeated int32 many = 4;
  optional group Old = 5 { optional string s = 1; } }
"#;

/// A folder with both files, and the options of a table that names one of their messages.
struct Given {
    folder: tempfile::TempDir,
    options: Vec<(&'static str, &'static str)>,
}

fn given(options: &[(&'static str, &'static str)]) -> Given {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("orders.proto"), PROTO).unwrap();
    std::fs::write(folder.path().join("old.proto"), OLD_PROTO).unwrap();
    Given { folder, options: options.to_vec() }
}

impl Given {
    fn format(&self, fields: Fields, direction: Direction) -> Result<RecordFormat, OptionError> {
        let schema = Arc::new(Schema::new(fields));
        let mut options = BTreeMap::from([
            ("format", "protobuf"),
            ("protobuf.descriptor", "orders.proto"),
            ("protobuf.message-class-name", "shop.v1.Order"),
        ]);
        options.extend(self.options.iter().copied());
        let options = options.into_iter().filter(|(_, value)| *value != "(none)");
        let options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let base = self.folder.path().to_path_buf();
        let table = TableSpec { name: "t".into(), schema: Arc::clone(&schema), options, base };
        let reader = OptionReader::new(&table);
        let format = RecordFormat::read(&reader, "format", &schema, direction)?;
        reader.finish()?;
        Ok(format)
    }
}

fn item() -> DataType {
    let fields = vec![
        Field::new("sku", DataType::Utf8, true),
        Field::new("count", DataType::Int32, true),
        Field::new("price", DataType::Float64, true),
    ];
    DataType::Struct(fields.into())
}

fn map(key: DataType, value: DataType) -> DataType {
    let pair = vec![Field::new("key", key, false), Field::new("value", value, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair.into()), false)), false)
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn all_columns() -> Fields {
    let time = vec![Field::new("seconds", DataType::Int64, true), Field::new("nanos", DataType::Int32, true)];
    let columns = [
        ("note", DataType::Utf8),
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("kind", DataType::Utf8),
        ("first", item()),
        ("items", list(item())),
        ("scores", list(DataType::Int64)),
        ("tags", map(DataType::Utf8, DataType::Int32)),
        ("by_place", map(DataType::Int32, item())),
        ("card", DataType::Utf8),
        ("cash", DataType::Int64),
        ("at", DataType::Struct(time.into())),
        ("paid", DataType::Boolean),
        ("f", DataType::Float32),
        ("raw", DataType::Binary),
        ("a", DataType::Int32),
        ("b", DataType::Int64),
        ("c", DataType::Int64),
        ("names", list(DataType::Utf8)),
    ];
    columns.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect()
}

fn columns(columns: &[(&str, DataType)]) -> Fields {
    columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect()
}

/// What comes of these messages, and what is wrong with the others.
fn read(format: &RecordFormat, messages: &[&[u8]]) -> (RecordBatch, Vec<(usize, String)>) {
    let mut records = Records::default();
    messages.iter().for_each(|message| records.push(Some(message)));
    let mut bad = Vec::new();
    let all: Vec<usize> = (0..format.schema().fields().len()).collect();
    let rows = format.decoder(&all).decode(&records, 0..records.len(), &mut bad);
    (rows, bad.into_iter().map(|bad| (bad.index, bad.reason)).collect())
}

fn written(format: &RecordFormat, rows: &RecordBatch) -> Vec<Vec<u8>> {
    let mut records = Records::default();
    format.encoder().encode(rows, &mut records).unwrap();
    (0..records.len()).map(|at| records.get(at).to_vec()).collect()
}

/// The examples of protobuf's own documentation of the wire: 150, "testing", and a message in another.
#[test]
fn the_bytes_are_those_of_the_documentation() {
    let given = given(&[]);
    let wanted = columns(&[("id", DataType::Int64), ("name", DataType::Utf8), ("first", item())]);
    let format = given.format(wanted, Direction::Write).unwrap();
    let bytes = [&[0x08, 0x96, 0x01, 0x22, 0x07][..], b"testing", &[0x3a, 0x02, 0x10, 0x03]].concat();
    let (rows, bad) = read(&format, &[&bytes]);
    assert_eq!(bad, []);
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 150);
    assert_eq!(rows.column(1).as_string::<i32>().value(0), "testing");
    // Zigzag: 3 is -2.
    assert_eq!(rows.column(2).as_struct().column(1).as_primitive::<Int32Type>().value(0), -2);
    assert_eq!(written(&format, &rows), [bytes]);
}

#[test]
fn a_field_of_a_message_is_read_alone() {
    let format =
        given(&[]).format(columns(&[("id", DataType::Int64), ("first", item())]), Direction::Read).unwrap();
    let mut records = Records::default();
    records.push(Some(&[0x08, 0x07, 0x3a, 0x05, 0x0a, 0x01, b'a', 0x10, 0x03]));
    records.push(Some(&[0x08, 0x08]));
    let DataType::Struct(fields) = item() else { unreachable!() };
    let count = fields.find("count").unwrap().0;
    let ways = [FieldWay { column: 1, fields: vec![count] }, FieldWay { column: 0, fields: vec![] }];
    let mut bad = Vec::new();
    let rows = format.field_decoder(&ways).decode(&records, 0..2, &mut bad);
    assert_eq!(bad, []);
    assert_eq!(rows.column(0).as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(-2), None]);
    assert_eq!(rows.column(1).as_primitive::<Int64Type>().values(), &[7, 8]);
}

#[test]
fn what_is_not_there_is_null_or_its_default() {
    let wanted = columns(&[
        ("id", DataType::Int64),
        ("note", DataType::Utf8),
        ("first", item()),
        ("names", list(DataType::Utf8)),
        ("kind", DataType::Utf8),
    ]);
    let nulls = |options: &[(&'static str, &'static str)]| -> Vec<bool> {
        let given = given(options);
        let (rows, bad) = read(&given.format(wanted.clone(), Direction::Read).unwrap(), &[&[]]);
        assert_eq!(bad, []);
        assert_eq!(rows.column(4).as_string::<i32>().value(0), "KIND_UNKNOWN");
        rows.columns().iter().map(|column| column.is_null(0)).collect()
    };
    assert_eq!(nulls(&[]), [false, true, true, true, false]);
    assert_eq!(nulls(&[("protobuf.read-default-values", "true")]), [false; 5]);
    // NOT NULL: a list is empty, a text with presence is a fault.
    let strict = Fields::from(vec![Field::new("names", list(DataType::Utf8), false)]);
    let given = given(&[]);
    let (rows, bad) = read(&given.format(strict, Direction::Read).unwrap(), &[&[]]);
    assert_eq!((rows.num_rows(), bad.len()), (1, 0));
    let strict = Fields::from(vec![Field::new("note", DataType::Utf8, false)]);
    let (_, bad) = read(&given.format(strict, Direction::Read).unwrap(), &[&[], &[0x2a, 0]]);
    assert_eq!(bad, [(0, "field 'note': the message has none, and the column is NOT NULL".to_owned())]);
}

#[test]
fn proto2_has_its_defaults_and_closed_enumerations() {
    let old = [("protobuf.descriptor", "old.proto"), ("protobuf.message-class-name", "Box")];
    let wanted =
        columns(&[("w", DataType::Int32), ("size", DataType::Utf8), ("many", list(DataType::Int32))]);
    let given_old = given(&old);
    let format = given_old.format(wanted.clone(), Direction::Read).unwrap();
    // Size 9 is none; a group is skipped; `many` packed, and not.
    let bytes = [0x18, 9, 0x2b, 0x0a, 1, b'x', 0x2c, 0x22, 2, 1, 2, 0x20, 3];
    let (rows, bad) = read(&format, &[&bytes, &[0x18, 4]]);
    assert_eq!(bad, []);
    assert!(rows.column(0).is_null(0) && rows.column(1).is_null(0));
    assert_eq!(rows.column(1).as_string::<i32>().value(1), "LARGE");
    assert_eq!(rows.column(2).as_list::<i32>().value(0).as_primitive::<Int32Type>().values(), &[1, 2, 3]);
    let defaults = given(&[old[0], old[1], ("protobuf.read-default-values", "true")]);
    let (rows, _) = read(&defaults.format(wanted, Direction::Read).unwrap(), &[&[]]);
    assert_eq!(rows.column(0).as_primitive::<Int32Type>().value(0), 7);
    assert_eq!(rows.column(1).as_string::<i32>().value(0), "SMALL");
    let group = columns(&[("old", item())]);
    let said = given_old.format(group, Direction::Read).unwrap_err().message;
    assert!(said.contains("is a group"), "{said}");
}

#[test]
fn the_last_one_counts_and_messages_are_merged() {
    let given = given(&[]);
    let wanted = columns(&[
        ("id", DataType::Int64),
        ("first", item()),
        ("card", DataType::Utf8),
        ("cash", DataType::Int64),
        ("tags", map(DataType::Utf8, DataType::Int32)),
        ("kind", DataType::Utf8),
    ]);
    let format = given.format(wanted.clone(), Direction::Read).unwrap();
    let bytes = [
        &[8, 1, 8, 2][..],
        &[0x3a, 3, 0x0a, 1, b'a', 0x3a, 2, 0x10, 4],
        &[0x5a, 1, b'c', 0x60, 9],
        &[0x52, 5, 0x0a, 1, b'k', 0x10, 1, 0x52, 3, 0x0a, 1, b'l', 0x52, 5, 0x0a, 1, b'k', 0x10, 2],
        // A value that the enumeration got later, and a field that nobody knows.
        &[0x30, 77, 0xf8, 0x07, 1],
    ]
    .concat();
    let (rows, bad) = read(&format, &[&bytes]);
    assert_eq!(bad, []);
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 2);
    let first = rows.column(1).as_struct();
    assert_eq!(first.column(0).as_string::<i32>().value(0), "a");
    assert_eq!(first.column(1).as_primitive::<Int32Type>().value(0), 2);
    assert!(rows.column(2).is_null(0), "the oneof's last member is cash");
    assert_eq!(rows.column(3).as_primitive::<Int64Type>().value(0), 9);
    let tags = rows.column(4).as_map();
    assert_eq!(tags.keys().as_string::<i32>().iter().collect::<Vec<_>>(), [Some("k"), Some("l")]);
    assert_eq!(tags.values().as_primitive::<Int32Type>().values(), &[2, 0]);
    assert_eq!(rows.column(5).as_string::<i32>().value(0), "UNRECOGNIZED");
    // Both members of the oneof are given: the last column is written.
    let both = columns(&[("card", DataType::Utf8), ("cash", DataType::Int64)]);
    let format = given.format(both.clone(), Direction::Write).unwrap();
    let values: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(arrow::array::StringArray::from(vec!["c", "d"])),
        Arc::new(arrow::array::Int64Array::from(vec![Some(9), None])),
    ];
    let rows = RecordBatch::try_new(Arc::new(Schema::new(both)), values).unwrap();
    assert_eq!(written(&format, &rows), [vec![0x60, 9], vec![0x5a, 1, b'd']]);
}

#[test]
fn a_bad_message_costs_itself_alone() {
    let given = given(&[]);
    let wanted = columns(&[("name", DataType::Utf8), ("scores", list(DataType::Int64)), ("first", item())]);
    let format = given.format(wanted, Direction::Read).unwrap();
    let good: &[u8] = &[0x22, 1, b'a', 0x4a, 2, 2, 4];
    let (rows, bad) = read(
        &format,
        &[
            good,
            &[0x22, 5, b'a'],
            good,
            &[0x22, 1, 0xff],
            &[0x20, 1],
            &[0x4a, 1, 0x80],
            &[0x07],
            good,
            &[0x3a, 1, 0x22],
        ],
    );
    assert_eq!(rows.num_rows(), 3);
    assert_eq!(
        rows.column(1).as_list::<i32>().values().as_primitive::<Int64Type>().values(),
        &[1, 2, 1, 2, 1, 2]
    );
    assert_eq!(bad.iter().map(|bad| bad.0).collect::<Vec<_>>(), [1, 3, 4, 5, 6, 8]);
    assert_eq!(bad[0].1, "field 'name': the message ends inside a value");
    assert_eq!(bad[1].1, "field 'name': not UTF-8");
    assert_eq!(bad[2].1, "field 'name': is written as another type");
}

#[test]
fn nulls_in_arrays_and_maps_are_defaults() {
    let given = given(&[("protobuf.write-null-string-literal", "-")]);
    let wanted = columns(&[("names", list(DataType::Utf8))]);
    let format = given.format(wanted.clone(), Direction::Write).unwrap();
    let mut names = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    names.values().append_option(Some("x"));
    names.values().append_null();
    names.append(true);
    let rows = RecordBatch::try_new(Arc::new(Schema::new(wanted)), vec![Arc::new(names.finish())]).unwrap();
    assert_eq!(written(&format, &rows), [[0xaa, 1, 1, b'x', 0xaa, 1, 1, b'-']]);
    let kinds = columns(&[("kind", DataType::Int32)]);
    let format = given.format(kinds.clone(), Direction::Write).unwrap();
    let rows =
        RecordBatch::try_new(Arc::new(Schema::new(kinds)), vec![Arc::new(Int32Array::from(vec![5, 0]))]);
    assert_eq!(written(&format, &rows.unwrap()), [vec![0x30, 5], vec![]]);
    let texts = columns(&[("kind", DataType::Utf8)]);
    let format = given.format(texts.clone(), Direction::Write).unwrap();
    let rows = RecordBatch::try_new(
        Arc::new(Schema::new(texts)),
        vec![Arc::new(arrow::array::StringArray::from(vec!["KIND_RETURN", "no"]))],
    );
    let said = format.encoder().encode(&rows.unwrap(), &mut Records::default()).unwrap_err();
    assert_eq!(said, "column 'kind': 'no' is no value of the enumeration");
}

#[test]
fn messages_are_found_by_either_name_and_what_is_wrong_is_said() {
    let id = || columns(&[("id", DataType::Int64)]);
    let said = |options: &[(&'static str, &'static str)], fields: Fields| match given(options)
        .format(fields, Direction::Read)
    {
        Ok(_) => "nothing".to_owned(),
        Err(error) => format!("{}: {}", error.key, error.message),
    };
    let name = "protobuf.message-class-name";
    assert_eq!(said(&[(name, "com.example.shop.Orders$Order")], id()), "nothing");
    assert_eq!(
        said(&[(name, "com.example.shop.Orders$Order$Inner")], columns(&[("x", DataType::Int32)])),
        "nothing"
    );
    let wrong = said(&[(name, "shop.v1.Ordr")], id());
    assert!(wrong.contains("no message 'shop.v1.Ordr'") && wrong.contains("'shop.v1.Order'"), "{wrong}");
    assert!(said(&[(name, "(none)")], id()).starts_with("protobuf.message-class-name: missing"));
    assert!(said(&[("protobuf.descriptor", "(none)")], id()).starts_with("protobuf.descriptor: missing"));
    assert!(said(&[("protobuf.descriptor", "no.proto")], id()).contains("no.proto"));
    let nowhere = said(&[], columns(&[("nowhere", DataType::Int64)]));
    assert!(
        nowhere.starts_with("format: message 'shop.v1.Order' has no field 'nowhere'; it has id, name"),
        "{nowhere}"
    );
    let other = said(&[], columns(&[("id", DataType::Utf8)]));
    assert_eq!(other, "format: column 'id' is Utf8, and the message's field is int64, which BIGINT holds");
    let scalar = said(&[], columns(&[("names", DataType::Utf8)]));
    assert!(scalar.contains("repeated string, which an ARRAY holds"), "{scalar}");
    let typo = said(&[("protobuf.read-defaults", "true")], id());
    assert!(typo.starts_with("protobuf.read-defaults: unknown option"), "{typo}");
}

#[test]
fn a_set_of_descriptors_does_as_well() {
    let given = given(&[("protobuf.descriptor", "set.pb")]);
    let mut compiler = protox::Compiler::new([given.folder.path()]).unwrap();
    compiler.include_imports(true).open_file(given.folder.path().join("orders.proto")).unwrap();
    std::fs::write(given.folder.path().join("set.pb"), compiler.encode_file_descriptor_set()).unwrap();
    assert!(given.format(all_columns(), Direction::Read).is_ok());
    std::fs::write(given.folder.path().join("set.pb"), "no").unwrap();
    let said = given.format(all_columns(), Direction::Read).unwrap_err().message;
    assert!(said.contains("neither a .proto file nor a set of descriptors"), "{said}");
}

fn order() -> DescriptorPool {
    let given = given(&[]);
    let mut compiler = protox::Compiler::new([given.folder.path()]).unwrap();
    compiler.include_imports(true).open_file(given.folder.path().join("orders.proto")).unwrap();
    compiler.descriptor_pool()
}

type ItemValues = (String, i32, Option<f64>);

fn item_value(pool: &DescriptorPool, (sku, count, price): &ItemValues) -> Value {
    let mut message = DynamicMessage::new(pool.get_message_by_name("shop.v1.Item").unwrap());
    message.set_field_by_name("sku", Value::String(sku.clone()));
    message.set_field_by_name("count", Value::I32(*count));
    if let Some(price) = price {
        message.set_field_by_name("price", Value::F64(*price));
    }
    Value::Message(message)
}

fn items() -> impl Strategy<Value = ItemValues> {
    ("[a-zé]{0,3}", any::<i32>(), proptest::option::of(-1e9..1e9))
}

proptest! {
    /// Any message that prost-reflect writes comes back as the same one.
    #[test]
    fn random_messages_come_back(
        numbers in (any::<i64>(), any::<i32>(), any::<i64>(), any::<u64>(), any::<f32>().prop_filter("a number", |f| !f.is_nan())),
        texts in ("[a-zé]{0,4}", proptest::option::of("[a-z]{0,2}"), proptest::collection::vec("[a-z]{0,2}", 0..4)),
        kind in prop_oneof![Just(0), Just(1), Just(5)],
        first in proptest::option::of(items()),
        many in proptest::collection::vec(items(), 0..4),
        scores in proptest::collection::vec(any::<i64>(), 0..5),
        tags in proptest::collection::btree_map("[a-z]{0,2}", any::<i32>(), 0..4),
        places in proptest::collection::btree_map(any::<i32>(), items(), 0..3),
        pay in proptest::option::of(prop_oneof!["[a-z]{0,3}".prop_map(Ok), any::<i64>().prop_map(Err)]),
        raw in proptest::collection::vec(any::<u8>(), 0..5),
        paid: bool,
    ) {
        let pool = order();
        let mut message = DynamicMessage::new(pool.get_message_by_name("shop.v1.Order").unwrap());
        let mut set = |name: &str, value: Value| message.set_field_by_name(name, value);
        set("id", Value::I64(numbers.0));
        set("a", Value::U32(numbers.1 as u32));
        set("b", Value::I64(numbers.2));
        set("c", Value::U64(numbers.3));
        set("f", Value::F32(numbers.4));
        set("name", Value::String(texts.0));
        texts.1.into_iter().for_each(|note| set("note", Value::String(note)));
        set("names", Value::List(texts.2.into_iter().map(Value::String).collect()));
        set("kind", Value::EnumNumber(kind));
        first.iter().for_each(|first| set("first", item_value(&pool, first)));
        set("items", Value::List(many.iter().map(|item| item_value(&pool, item)).collect()));
        set("scores", Value::List(scores.into_iter().map(Value::I64).collect()));
        let tags: HashMap<MapKey, Value> =
            tags.into_iter().map(|(key, value)| (MapKey::String(key), Value::I32(value))).collect();
        set("tags", Value::Map(tags));
        let places: HashMap<MapKey, Value> =
            places.iter().map(|(key, value)| (MapKey::I32(*key), item_value(&pool, value))).collect();
        set("by_place", Value::Map(places));
        match pay {
            Some(Ok(card)) => set("card", Value::String(card)),
            Some(Err(cash)) => set("cash", Value::I64(cash)),
            None => {}
        }
        set("raw", Value::Bytes(raw.into()));
        set("paid", Value::Bool(paid));
        let given = given(&[]);
        let format = given.format(all_columns(), Direction::Write).unwrap();
        let bytes = message.encode_to_vec();
        let (rows, bad) = read(&format, &[&bytes]);
        prop_assert_eq!(bad, vec![]);
        let again = written(&format, &rows).remove(0);
        let known = |bytes: &[u8]| DynamicMessage::decode(message.descriptor(), bytes).unwrap();
        prop_assert!(known(&again) == known(&bytes), "{:?} became {:?}", bytes, again);
    }

    /// Whatever bytes come, they are a row or a bad record, as for prost-reflect.
    #[test]
    fn any_bytes_are_a_row_or_bad(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0_u8..0x60], 0..40)) {
        let given = given(&[]);
        let format = given.format(all_columns(), Direction::Read).unwrap();
        let (rows, bad) = read(&format, &[&bytes]);
        prop_assert_eq!(rows.num_rows() + bad.len(), 1);
        let known = DynamicMessage::decode(order().get_message_by_name("shop.v1.Order").unwrap(), bytes.as_slice());
        // Names of other types than their fields' are bad for both; what a skipped field holds is looked into by neither.
        prop_assert_eq!(known.is_ok(), bad.is_empty(), "{:?} {:?}", known.err(), bad);
    }
}
