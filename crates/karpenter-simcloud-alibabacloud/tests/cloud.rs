//! A cloud to ask, with a clock that the test moves and a watcher that remembers.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use karpenter_environment::{Environment as _, SeededEnvironment, format_time};
use karpenter_simcloud::{MachineEvent, Market, Plenty, Watcher};
use karpenter_simcloud_alibabacloud::{ACCESS_KEY, ACCESS_SECRET, SECURITY_GROUP, Service, Times, World};
use ring::{digest, hmac};
use serde_json::Value;

pub(crate) const CLUSTER: &str = "ctest";
pub(crate) const X64: &str = "aliyun_3_x64_20G_alibase_20250629.vhd";

/// Remembers what it was told.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Vec<MachineEvent>>);

impl Watcher for Memory {
    fn happened(&self, event: MachineEvent) {
        self.0.lock().expect("nobody panics while remembering").push(event);
    }
}

/// Who signs a request.
#[derive(Clone)]
pub(crate) struct Signer {
    pub(crate) key: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

impl Default for Signer {
    fn default() -> Self {
        Self { key: ACCESS_KEY.to_owned(), secret: ACCESS_SECRET.to_owned(), token: None }
    }
}

pub(crate) struct Cloud {
    pub(crate) service: Service,
    pub(crate) environment: Arc<SeededEnvironment>,
    pub(crate) memory: Arc<Memory>,
}

pub(crate) fn cloud() -> Cloud {
    cloud_with(Arc::new(Plenty))
}

pub(crate) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

pub(crate) fn cloud_with(market: Arc<dyn Market>) -> Cloud {
    let environment = Arc::new(SeededEnvironment::new(7, start()));
    let memory = Arc::new(Memory::default());
    let world = World::standard("cn-hangzhou", CLUSTER);
    let service = Service::with(world, environment.clone(), market, memory.clone());
    Cloud { service, environment, memory }
}

/// An answer: its status and its JSON.
pub(crate) type Answer = (u16, Value);

pub(crate) fn read(response: &Response<Bytes>) -> Answer {
    let value = serde_json::from_slice(response.body());
    let text = || Value::String(String::from_utf8_lossy(response.body()).into_owned());
    (response.status().as_u16(), value.unwrap_or_else(|_| text()))
}

impl Cloud {
    pub(crate) fn wait(&self, seconds: i64) {
        let now = self.environment.now() + SignedDuration::from_secs(seconds);
        self.environment.set_now(now);
        self.service.tick(now);
    }

    pub(crate) fn at_once(&self) {
        self.service.change(|world| world.times = Times::at_once());
    }

    pub(crate) fn told(&self) -> Vec<MachineEvent> {
        std::mem::take(&mut *self.memory.0.lock().expect("nobody panics while remembering"))
    }

    pub(crate) fn ecs(&self, action: &str, params: &[(&str, &str)]) -> Answer {
        read(&self.service.handle(&self.signed("2014-05-26", action, params, &Signer::default())))
    }

    /// An RPC request, signed.
    pub(crate) fn signed(
        &self,
        version: &str,
        action: &str,
        params: &[(&str, &str)],
        signer: &Signer,
    ) -> Request<Bytes> {
        let query: Vec<String> =
            params.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        self.sign("POST", "/", &query.join("&"), version, action, b"", signer)
    }

    pub(crate) fn cs(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let signer = Signer::default();
        read(&self.service.handle(&self.sign(method, path, "", "2015-12-15", "Action", body, &signer)))
    }

    #[expect(clippy::too_many_arguments, reason = "a request has so many parts")]
    pub(crate) fn sign(
        &self,
        method: &str,
        path: &str,
        query: &str,
        version: &str,
        action: &str,
        body: &[u8],
        signer: &Signer,
    ) -> Request<Bytes> {
        let hash = hex(digest::digest(&digest::SHA256, body).as_ref());
        let mut headers = vec![
            ("host", "ecs.simulated".to_owned()),
            ("x-acs-action", action.to_owned()),
            ("x-acs-content-sha256", hash.clone()),
            ("x-acs-date", format_time(self.environment.now())),
            ("x-acs-signature-nonce", self.environment.uid()),
            ("x-acs-version", version.to_owned()),
        ];
        headers.extend(signer.token.clone().map(|token| ("x-acs-security-token", token)));
        headers.sort();
        let mut sorted: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
        sorted.sort_unstable();
        let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let canonical =
            format!("{method}\n{path}\n{}\n{}\n{names}\n{hash}", sorted.join("&"), lines.concat());
        let text = format!(
            "ACS3-HMAC-SHA256\n{}",
            hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref())
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, signer.secret.as_bytes());
        let signature = hex(hmac::sign(&key, text.as_bytes()).as_ref());
        let mut request = Request::builder().method(method).uri(format!("{path}?{query}"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let authorization =
            format!("ACS3-HMAC-SHA256 Credential={},SignedHeaders={names},Signature={signature}", signer.key);
        request.header("authorization", authorization).body(Bytes::copy_from_slice(body)).expect("a request")
    }

    /// Launches an `ecs.g7.large` in zone h, with more parameters.
    pub(crate) fn run(&self, more: &[(&str, &str)]) -> Answer {
        let mut params = vec![
            ("RegionId", "cn-hangzhou"),
            ("InstanceType", "ecs.g7.large"),
            ("ImageId", X64),
            ("VSwitchId", "vsw-simulatedhprivate"),
            ("SecurityGroupId", SECURITY_GROUP),
            ("SystemDisk.Category", "cloud_essd"),
            ("SystemDisk.Size", "40"),
        ];
        params.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        params.extend(more);
        self.ecs("RunInstances", &params)
    }

    /// Launches one and returns its id.
    pub(crate) fn launch(&self, more: &[(&str, &str)]) -> String {
        let (status, answer) = self.run(more);
        assert_eq!(status, 200, "{answer}");
        answer["InstanceIdSets"]["InstanceIdSet"][0].as_str().expect("an id").to_owned()
    }

    /// What the cloud says about a machine; nothing when it is not listed.
    pub(crate) fn instance(&self, id: &str) -> Option<Value> {
        let (_, answer) = self.ecs("DescribeInstances", &[("InstanceIds", &format!("[\"{id}\"]"))]);
        answer["Instances"]["Instance"].get(0).cloned()
    }
}

fn encode(text: &str) -> String {
    let byte = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(byte).collect::<Vec<_>>().concat()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}
