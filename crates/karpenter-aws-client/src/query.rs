//! The query protocols: requests as flat forms, answers as XML. EC2 numbers list elements directly, IAM and STS below `member`.

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::{Call, Client, TIMEOUT};
use crate::endpoint::Service;
use crate::error::{Error, ErrorKind};
use crate::retry::RetryPolicy;
use crate::xml::Element;
use crate::{uri, xml_value};

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
            body: Bytes::from(uri::encode_pairs(form)),
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
        let mut items = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let more = token.as_deref().map(|token| (O::NEXT, token));
            let (page, next) = O::page(self.query(dialect, request, more, None).await?);
            items.extend(page);
            match next.filter(|next| !next.is_empty()) {
                // A page that points at itself would never end.
                Some(next) if token.as_ref() == Some(&next) => {
                    let message = "the answer points to the same page again";
                    return Err(Error::local(O::NAME, ErrorKind::Invalid, message));
                }
                Some(next) => token = Some(next),
                None => return Ok(items),
            }
        }
    }
}

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
