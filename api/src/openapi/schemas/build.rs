//! Builders of schemas. Each function makes one kind of value: an object, a text, a reference.

use serde_json::{Map, Value, json};

pub(in crate::openapi) fn named_schemas<const N: usize>(
    schemas: [(&str, Value); N],
) -> Map<String, Value> {
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// An object in an answer. Every property is required, except those named in `optional`.
pub(in crate::openapi) fn object_schema(
    description: &str,
    optional: &[&str],
    properties: Value,
) -> Value {
    let names = properties.as_object().into_iter().flat_map(Map::keys);
    let required: Vec<_> = names.filter(|name| !optional.contains(&name.as_str())).collect();
    let mut object = json!({"type": "object", "description": description, "required": required});
    object["properties"] = properties;
    object
}

pub(in crate::openapi) fn text_schema(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(in crate::openapi) fn uri_schema(description: &str) -> Value {
    json!({"type": "string", "format": "uri", "description": description})
}

/// A text with known values, to which a later version may add others.
pub(in crate::openapi) fn open_text(description: &str, examples: &[&str]) -> Value {
    json!({"type": "string", "description": description, "examples": examples})
}

/// A reference to a named schema, with a description for this place.
pub(in crate::openapi) fn as_here(schema: &str, description: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}"), "description": description})
}
