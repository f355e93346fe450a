//! What is wrong with an object, and where: a path of field names and a sentence.

use std::fmt::{self, Display};

/// A field the core cannot work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The field, from the outermost object inwards: `spec.containers[0].resources.requests.cpu`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl Invalid {
    /// A complaint about the very value being read; callers put the path in front with [`At::at`].
    pub fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    /// The complaint as seen from the object that holds the value in `field`.
    #[must_use]
    pub fn within(self, field: impl Display) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{field}{separator}{}", self.path), message: self.message }
    }
}

impl Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for Invalid {}

/// Adds the path to a failed conversion.
pub(crate) trait At {
    /// Says in which field the value sits.
    fn at(self, field: &str) -> Self;
    /// Says at which position of a list the value sits.
    fn at_index(self, index: usize) -> Self;
}

impl<T> At for Result<T, Invalid> {
    fn at(self, field: &str) -> Self {
        self.map_err(|invalid| invalid.within(field))
    }

    fn at_index(self, index: usize) -> Self {
        self.map_err(|invalid| invalid.within(format_args!("[{index}]")))
    }
}

/// Converts every element of an optional list; a complaint names the element.
pub(crate) fn each<'a, T: 'a, U>(
    list: impl IntoIterator<Item = &'a T>,
    convert: impl Fn(&'a T) -> Result<U, Invalid>,
) -> Result<Vec<U>, Invalid> {
    list.into_iter().enumerate().map(|(index, element)| convert(element).at_index(index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_grow_from_the_inside_out() {
        let failed: Result<(), Invalid> = Err(Invalid::new("is odd"));
        let failed = failed.at("cpu").at("requests").at_index(3).at("containers");
        assert_eq!(failed.unwrap_err().to_string(), "containers[3].requests.cpu: is odd");
    }
}
