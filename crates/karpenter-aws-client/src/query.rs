//! The query protocols: requests as flat forms, answers as XML. EC2 numbers list elements directly, IAM and STS below `member`.

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use karpenter_transport::{Element, RetryPolicy, encoding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::{Call, Client, TIMEOUT};
use crate::endpoint::Service;
use crate::error::{Error, ErrorKind};
use crate::xml_value;

/// A request with its operation and the type of its answer.
pub trait QueryOperation: Serialize {
    /// The operation's name.
    const NAME: &'static str;
    /// What comes back.
    type Answer: DeserializeOwned;
}

/// A request whose answer comes in pages.
pub trait PagedOperation: QueryOperation {
    /// What a page holds.
    type Item;
    /// The parameter that asks for the next page.
    const NEXT: &'static str = "NextToken";
    /// The items of a page, and what to ask for the next one with.
    fn page(answer: Self::Answer) -> (Vec<Self::Item>, Option<String>);
}

/// The pages of an answer that have come so far. For callers that do something between pages, such as waiting for their turn; others list.
pub struct Pages<O: PagedOperation> {
    items: Vec<O::Item>,
    token: Option<String>,
    complete: bool,
}

impl<O: PagedOperation> Default for Pages<O> {
    fn default() -> Self {
        Self { items: Vec::new(), token: None, complete: false }
    }
}

impl<O: PagedOperation> Pages<O> {
    /// What to ask for the next page with; nothing for the first.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Adds a page.
    ///
    /// # Errors
    /// When it points at itself: there would be no end.
    pub fn add(&mut self, answer: O::Answer) -> Result<(), Error> {
        let (page, next) = O::page(answer);
        self.items.extend(page);
        let next = next.filter(|next| !next.is_empty());
        if next.is_some() && next == self.token {
            let message = "the answer points to the same page again";
            return Err(Error::local(O::NAME, ErrorKind::Invalid, message));
        }
        self.complete = next.is_none();
        self.token = next;
        Ok(())
    }

    /// Whether the last page has come.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Everything that has come.
    pub fn into_items(self) -> Vec<O::Item> {
        self.items
    }
}

/// How a service speaks the protocol.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    pub(crate) service: Service,
    pub(crate) version: &'static str,
    /// What stands between a list's name and its numbers.
    pub(crate) list: &'static str,
    /// Whether the answer is inside an element called `<operation>Result`.
    pub(crate) wrapped: bool,
}

pub(crate) const EC2: Dialect =
    Dialect { service: Service::Ec2, version: "2016-11-15", list: "", wrapped: false };
pub(crate) const IAM: Dialect =
    Dialect { service: Service::Iam, version: "2010-05-08", list: ".member", wrapped: true };
pub(crate) const STS: Dialect =
    Dialect { service: Service::Sts, version: "2011-06-15", list: ".member", wrapped: true };

impl Dialect {
    /// The form for `request`, action and version included.
    pub(crate) fn form<O: QueryOperation>(self, request: &O) -> Result<Vec<(String, String)>, Error> {
        let value = serde_json::to_value(request)
            .map_err(|error| Error::local(O::NAME, ErrorKind::Invalid, error.to_string()))?;
        let mut pairs =
            vec![("Action".to_owned(), O::NAME.to_owned()), ("Version".to_owned(), self.version.to_owned())];
        self.flatten("", &value, &mut pairs);
        Ok(pairs)
    }

    fn flatten(self, name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
        match value {
            Value::Null => {}
            Value::Bool(flag) => pairs.push((name.to_owned(), flag.to_string())),
            Value::Number(number) => pairs.push((name.to_owned(), number.to_string())),
            Value::String(text) => pairs.push((name.to_owned(), text.clone())),
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.flatten(&format!("{name}{}.{}", self.list, index + 1), element, pairs);
                }
            }
            Value::Object(fields) => {
                for (field, value) in fields {
                    let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                    self.flatten(&name, value, pairs);
                }
            }
        }
    }

    fn read<O: QueryOperation>(self, body: &[u8]) -> Result<O::Answer, Error> {
        let wrong = |message: String| {
            Error::local(O::NAME, ErrorKind::Invalid, format!("the answer is not understood: {message}"))
        };
        let root =
            Element::parse(&String::from_utf8_lossy(body)).map_err(|error| wrong(error.to_string()))?;
        let name = format!("{}Result", O::NAME);
        let empty = Element::default();
        let answer = if self.wrapped { root.child(&name).unwrap_or(&empty) } else { &root };
        xml_value::read(answer).map_err(|error| wrong(error.to_string()))
    }
}

impl Client {
    /// Sends one request of a query protocol; `more` are parameters besides its own.
    pub(crate) async fn query<O: QueryOperation>(
        &self,
        dialect: Dialect,
        request: &O,
        more: Option<(&str, &str)>,
        retry: Option<RetryPolicy>,
    ) -> Result<O::Answer, Error> {
        let endpoint = self.endpoint(dialect.service, self.region());
        let mut form = dialect.form(request)?;
        form.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let call = Call {
            service: dialect.service,
            operation: O::NAME,
            method: Method::POST,
            url: format!("{}/", endpoint.url),
            signing_region: endpoint.signing_region,
            headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static(FORM))],
            body: Bytes::from(encoding::encode_pairs(form)),
            timeout: TIMEOUT,
            retry,
        };
        let response = self.send(&call).await.map_err(|failure| failure.error)?;
        dialect.read::<O>(response.body())
    }

    /// Asks for pages until there are no more.
    pub(crate) async fn query_pages<O: PagedOperation>(
        &self,
        dialect: Dialect,
        request: &O,
    ) -> Result<Vec<O::Item>, Error> {
        let mut pages = Pages::<O>::default();
        while !pages.is_complete() {
            let more = pages.token().map(|token| (O::NEXT, token));
            let answer = self.query(dialect, request, more, None).await?;
            pages.add(answer)?;
        }
        Ok(pages.into_items())
    }
}

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
