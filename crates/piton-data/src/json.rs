//! JSON that keeps the order of its keys.

use std::fmt;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

/// A JSON value whose objects keep their keys in the order they were written in.
///
/// A chat template may print an object whole (`tool_call.arguments | tojson`), and then the order reaches the model.
/// `serde_json::Value` sorts its keys, unless some crate of the build asks it not to.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number or a float; whole numbers past 64 bits become floats.
    Number(Number),
    /// A string
    String(String),
    /// An array
    Array(Vec<Self>),
    /// An object
    Object(Object),
}

/// The entries of a JSON object, in order; no key stands twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Vec<(String, Json)>);

impl Object {
    /// Gives the value under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Puts `value` under `key`: in its old place if the key is there, else at the end.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Json>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key, value)),
        }
    }

    /// Takes the value under `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let place = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(place).1)
    }

    /// Goes through the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Says whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(b),
            Value::Number(n) => Self::Number(n),
            Value::String(s) => Self::String(s),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(map) => {
                Self::Object(Object(map.into_iter().map(|(k, v)| (k, Self::from(v))).collect()))
            }
        }
    }
}

impl From<Json> for serde_json::Value {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(b) => Self::Bool(b),
            Json::Number(n) => Self::Number(n),
            Json::String(s) => Self::String(s),
            Json::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Json::Object(object) => Self::Object(object.into()),
        }
    }
}

impl From<Object> for serde_json::Map<String, serde_json::Value> {
    fn from(object: Object) -> Self {
        object.0.into_iter().map(|(k, v)| (k, v.into())).collect()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => out.serialize_unit(),
            Self::Bool(b) => out.serialize_bool(*b),
            Self::Number(n) => n.serialize(out),
            Self::String(s) => out.serialize_str(s),
            Self::Array(items) => out.collect_seq(items),
            Self::Object(object) => object.serialize(out),
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(JsonVisitor)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        match input.deserialize_map(JsonVisitor)? {
            Json::Object(object) => Ok(object),
            _ => Err(de::Error::custom("not an object")),
        }
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Json, E> {
        Ok(Json::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Json, E> {
        Ok(Json::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Json, E> {
        Ok(Json::Number(n.into()))
    }

    fn visit_f64<E: de::Error>(self, x: f64) -> Result<Json, E> {
        Number::from_f64(x).map(Json::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, s: &str) -> Result<Json, E> {
        Ok(Json::String(s.into()))
    }

    fn visit_string<E>(self, s: String) -> Result<Json, E> {
        Ok(Json::String(s))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut object = Object::default();
        while let Some((key, value)) = map.next_entry::<String, Json>()? {
            if object.get(&key).is_some() {
                return Err(de::Error::custom(format_args!("key {key:?} stands twice")));
            }
            object.0.push((key, value));
        }
        Ok(Json::Object(object))
    }
}
