//! Keeps certificate, Secret and webhook configuration in step: replicas share the Secret, the API server trusts what the configuration says.

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};

use super::certificate::{Certificate, Shown};

/// What is to be kept in step.
pub(super) struct Trust {
    pub(super) client: Client,
    pub(super) names: Vec<String>,
    pub(super) namespace: String,
    pub(super) secret: String,
    pub(super) configuration: String,
}

impl Trust {
    /// Takes the certificate that is shared, or shares a new one, shows it and has it trusted.
    pub(super) async fn look(&self, shown: &Shown, now: Timestamp) -> anyhow::Result<()> {
        let certificate = self.shared(now).await?;
        shown.show(&certificate)?;
        if self.configuration.is_empty() {
            return Ok(());
        }
        self.make_known(&certificate).await
    }

    /// The certificate of the Secret, renewed if it is time. Of two replicas that renew at once one is refused, and finds the other's the next time.
    async fn shared(&self, now: Timestamp) -> anyhow::Result<Certificate> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = secrets.get_opt(&self.secret).await;
        let found = found.with_context(|| format!("reading Secret {}/{}", self.namespace, self.secret))?;
        let kept = found.as_ref().and_then(|secret| Certificate::kept(secret.data.as_ref()?));
        if let Some(kept) = kept.as_ref().filter(|kept| kept.is_good(&self.names, now)) {
            return Ok(kept.clone());
        }
        let new = Certificate::generate(&self.names, kept.as_ref(), now)?;
        let parameters = PostParams::default();
        let written = if let Some(secret) = found {
            secrets.replace(&self.secret, &parameters, &Secret { data: Some(new.data()), ..secret }).await
        } else {
            let mut secret = Secret { data: Some(new.data()), ..Secret::default() };
            secret.metadata.name = Some(self.secret.clone());
            secrets.create(&parameters, &secret).await
        };
        written.with_context(|| format!("writing Secret {}/{}", self.namespace, self.secret))?;
        Ok(new)
    }

    async fn make_known(&self, certificate: &Certificate) -> anyhow::Result<()> {
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let name = &self.configuration;
        let configuration = configurations.get(name).await;
        let configuration =
            configuration.with_context(|| format!("reading ValidatingWebhookConfiguration {name}"))?;
        let bundle = ByteString(certificate.bundle_pem.clone().into_bytes());
        let mut trusting = configuration.clone();
        for webhook in trusting.webhooks.iter_mut().flatten() {
            webhook.client_config.ca_bundle = Some(bundle.clone());
        }
        if trusting == configuration {
            return Ok(());
        }
        let written = configurations.replace(name, &PostParams::default(), &trusting).await;
        written.with_context(|| format!("writing ValidatingWebhookConfiguration {name}"))?;
        Ok(())
    }
}
