//! How long a datum is, by its writer's schema: in a file nothing stands between one and the next.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use serde_json::Value;

use super::varint::read_long;

/// What is to be known of a type to pass over its values.
#[derive(Debug)]
pub(super) enum Shape {
    /// So many bytes.
    Bytes(usize),
    Number,
    /// Bytes with their count before them.
    Text,
    Record(Vec<Arc<Shape>>),
    /// Blocks of these, each with their count before it, and an empty one at the end.
    Many(Arc<Shape>),
    Union(Vec<Arc<Shape>>),
}

impl Shape {
    /// # Errors
    /// If this is no schema, or one of values that hold themselves, or without end.
    pub(super) fn of(json: &str) -> Result<Arc<Shape>, String> {
        let schema: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Names::default().shape(&schema, "")
    }

    /// Bytes of the value that `data` begins with.
    ///
    /// # Errors
    /// If it does not end in `data`, or is none.
    pub(super) fn length(&self, data: &[u8]) -> io::Result<usize> {
        let mut rest = data;
        self.pass(&mut rest)?;
        Ok(data.len() - rest.len())
    }

    fn pass(&self, rest: &mut &[u8]) -> io::Result<()> {
        match self {
            Shape::Bytes(bytes) => skip(rest, *bytes as i64),
            Shape::Number => read_long(rest).map(drop),
            Shape::Text => {
                let bytes = read_long(rest)?;
                skip(rest, bytes)
            }
            Shape::Record(fields) => fields.iter().try_for_each(|field| field.pass(rest)),
            Shape::Many(item) => loop {
                match read_long(rest)? {
                    0 => return Ok(()),
                    count @ 1.. => (0..count).try_for_each(|_| item.pass(rest))?,
                    // Their bytes follow, for who wants to pass over them.
                    _ => {
                        let bytes = read_long(rest)?;
                        skip(rest, bytes)?;
                    }
                }
            },
            Shape::Union(branches) => {
                let branch = usize::try_from(read_long(rest)?).ok().and_then(|place| branches.get(place));
                branch.ok_or_else(|| invalid("a union has no such branch"))?.pass(rest)
            }
        }
    }

    /// Its values have no bytes: there may be any number of them in nothing.
    fn is_nothing(&self) -> bool {
        matches!(self, Shape::Bytes(0))
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

fn skip(rest: &mut &[u8], bytes: i64) -> io::Result<()> {
    let bytes = usize::try_from(bytes).map_err(|_| invalid("a length is below zero"))?;
    *rest = rest.get(bytes..).ok_or(ErrorKind::UnexpectedEof)?;
    Ok(())
}

/// Types that have a name, by it.
#[derive(Default)]
struct Names(HashMap<String, Arc<Shape>>);

impl Names {
    fn shape(&mut self, schema: &Value, namespace: &str) -> Result<Arc<Shape>, String> {
        match schema {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.shape(branch, namespace));
                Ok(Arc::new(Shape::Union(branches.collect::<Result<_, _>>()?)))
            }
            Value::Object(_) => self.complex(schema, namespace),
            other => Err(format!("{other} is no type of Avro")),
        }
    }

    fn named(&self, name: &str, namespace: &str) -> Result<Arc<Shape>, String> {
        Ok(Arc::new(match name {
            "null" => Shape::Bytes(0),
            "boolean" => Shape::Bytes(1),
            "float" => Shape::Bytes(4),
            "double" => Shape::Bytes(8),
            "int" | "long" => Shape::Number,
            "bytes" | "string" => Shape::Text,
            _ => {
                let known = self.0.get(&full_name(name, namespace)).or_else(|| self.0.get(name));
                // One that is not known yet may be what is being read.
                return known.cloned().ok_or_else(|| format!("'{name}' is no type that is known there"));
            }
        }))
    }

    fn complex(&mut self, schema: &Value, namespace: &str) -> Result<Arc<Shape>, String> {
        let kind = &schema["type"];
        let Some(kind) = kind.as_str() else { return self.shape(kind, namespace) };
        let name = schema["name"].as_str().unwrap_or_default();
        let name = full_name(name, schema["namespace"].as_str().unwrap_or(namespace));
        let inside = name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
        let shape = match kind {
            "record" | "error" => {
                let fields = schema["fields"].as_array().ok_or("a record has no 'fields'")?;
                let fields = fields.iter().map(|field| self.shape(&field["type"], inside));
                let fields: Vec<Arc<Shape>> = fields.collect::<Result<_, _>>()?;
                // So that every record that is passed over takes a byte.
                match fields.iter().all(|field| field.is_nothing()) {
                    true => Shape::Bytes(0),
                    false => Shape::Record(fields),
                }
            }
            "enum" => Shape::Number,
            "fixed" => {
                let bytes = schema["size"].as_u64().and_then(|size| usize::try_from(size).ok());
                Shape::Bytes(bytes.ok_or("a 'fixed' has no 'size'")?)
            }
            "array" => return many(self.shape(&schema["items"], namespace)?),
            "map" => {
                let pair = vec![Arc::new(Shape::Text), self.shape(&schema["values"], namespace)?];
                return many(Arc::new(Shape::Record(pair)));
            }
            other => return self.named(other, namespace),
        };
        let shape = Arc::new(shape);
        self.0.insert(name, Arc::clone(&shape));
        Ok(shape)
    }
}

fn many(item: Arc<Shape>) -> Result<Arc<Shape>, String> {
    match item.is_nothing() {
        true => Err("an array of nothing is not supported".to_owned()),
        false => Ok(Arc::new(Shape::Many(item))),
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        _ if name.contains('.') => name.to_owned(),
        _ => format!("{namespace}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type": "record", "name": "r", "namespace": "a.b", "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["x", "y"]}},
        {"name": "time", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "hash", "type": {"type": "fixed", "name": "hash", "size": 3}},
        {"name": "again", "type": ["null", "a.b.kind", "hash"]},
        {"name": "texts", "type": {"type": "array", "items": "string"}},
        {"name": "pairs", "type": {"type": "map", "values": {"type": "record", "name": "pair", "fields": [
            {"name": "f", "type": "float"}, {"name": "d", "type": "double"}]}}},
        {"name": "none", "type": "null"}]}"#;

    #[test]
    fn a_datum_is_as_long_as_its_values() {
        let shape = Shape::of(SCHEMA).unwrap();
        let mut datum = vec![1, 2, 2, 8, 7, 7, 7, 4, 9, 9, 9];
        // Two texts in a block of a known length, one in another, and no more; a pair under "k".
        datum.extend([3, 10, 2, b'a', 4, b'b', b'c', 2, 0, 0]);
        datum.extend([2, 2, b'k', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(shape.length(&[&datum[..], &[5, 5]].concat()).unwrap(), datum.len());
        for short in 0..datum.len() {
            assert!(shape.length(&datum[..short]).is_err(), "{short}");
        }
        datum[2] = 4;
        assert_eq!(shape.length(&datum).unwrap_err().to_string(), "a union has no such branch");
    }

    #[test]
    fn what_has_no_length_is_refused() {
        let fault = |json: &str| Shape::of(json).unwrap_err();
        assert_eq!(fault(r#"{"type": "array", "items": "null"}"#), "an array of nothing is not supported");
        let own = r#"{"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}"#;
        assert_eq!(fault(own), "'r' is no type that is known there");
        assert_eq!(fault("7"), "7 is no type of Avro");
        assert_eq!(fault(r#"{"type": "record", "name": "r"}"#), "a record has no 'fields'");
    }
}
