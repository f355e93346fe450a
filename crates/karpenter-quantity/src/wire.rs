//! How a quantity travels in JSON and YAML: written as its canonical text, read from text or from a bare number.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{Format, NANO_PER_UNIT, Quantity};

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"100m\", 2 or \"1.5Gi\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        // The API server ignores blanks around the text, though not inside it.
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_units(units))
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<Quantity, E> {
        Ok(Quantity::from_nano(i128::from(units) * NANO_PER_UNIT, Format::DecimalSI))
    }

    fn visit_f64<E: Error>(self, units: f64) -> Result<Quantity, E> {
        // The shortest text of the float is what the user wrote, unlike the float's binary value.
        units.to_string().parse().map_err(E::custom)
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}
