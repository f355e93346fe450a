//! The dialects of AWS: flat forms in, XML out; JSON in and out.

pub(crate) mod form;
pub(crate) mod md5;
pub(crate) mod page;
pub(crate) mod refusal;
pub(crate) mod signature;
pub(crate) mod uri;
pub(crate) mod xml;
