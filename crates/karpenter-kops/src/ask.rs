//! Answers to our questions from EC2 and SSM.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use karpenter_aws_client::ec2::{self, DescribeImages, DescribeInstanceTypes, Filter};
use karpenter_aws_client::{Client, Error};

use crate::cloud::{Answers, Image, ImageReference, Questions, newest};
use crate::machine_types::MachineType;

/// Calls under way at once; EC2 throttles those who ask more.
const CALLS_MAX: usize = 8;
/// EC2 takes so many values in one filter.
const FILTER_VALUES_MAX: usize = 200;

/// Asks EC2 and SSM.
///
/// # Errors
///
/// A call failed. That an image or a type does not exist is an answer.
pub async fn ask(client: &Client, questions: &Questions) -> Result<Answers, Error> {
    let names = questions.images.iter().chain(questions.default_images.values());
    let images: BTreeMap<String, Result<Image, String>> = stream::iter(names)
        .map(|name| async move { Ok::<_, Error>((name.clone(), find(client, name).await?)) })
        .buffered(CALLS_MAX)
        .try_collect()
        .await?;
    Ok(Answers {
        images,
        machine_types: machine_types(client, questions).await?,
        default_images: questions.default_images.clone(),
    })
}

async fn find(client: &Client, name: &str) -> Result<Result<Image, String>, Error> {
    let request = match ImageReference::parse(name) {
        ImageReference::Id(id) => by_id(id),
        ImageReference::SsmParameter(parameter) => match client.ssm().parameter(parameter).await? {
            Some(found) => by_id(&found.value),
            None => return Ok(Err(format!("there is no SSM parameter {parameter:?}"))),
        },
        ImageReference::Name { owner, name } => DescribeImages {
            filters: vec![Filter::new("name", [name])],
            owners: vec![owner.to_owned()],
            ..DescribeImages::default()
        },
    };
    let images: Vec<Image> = client.ec2().list(&request).await?.into_iter().map(image).collect();
    Ok(newest(images.iter()).ok_or_else(|| "there is no such image".to_owned()))
}

fn by_id(id: &str) -> DescribeImages {
    DescribeImages { filters: vec![Filter::new("image-id", [id])], ..DescribeImages::default() }
}

fn image(found: ec2::Image) -> Image {
    Image {
        id: found.image_id,
        name: found.name.unwrap_or_default(),
        owner: found.owner_id.unwrap_or_default(),
        creation_date: found.creation_date.unwrap_or_default(),
        root_device_name: found.root_device_name.unwrap_or_default(),
        architecture: found.architecture.unwrap_or_default(),
    }
}

async fn machine_types(
    client: &Client,
    questions: &Questions,
) -> Result<BTreeMap<String, MachineType>, Error> {
    let names: Vec<&String> = questions.machine_types.iter().filter(|name| !name.contains(',')).collect();
    let mut types = BTreeMap::new();
    for names in names.chunks(FILTER_VALUES_MAX) {
        let filters = vec![Filter::new("instance-type", names.iter().map(|name| (*name).clone()))];
        let request = DescribeInstanceTypes { filters, ..DescribeInstanceTypes::default() };
        for found in client.ec2().list(&request).await? {
            let machine = MachineType {
                architectures: found.processor_info.supported_architectures,
                has_gpu: found.gpu_info.is_some(),
            };
            types.insert(found.instance_type, machine);
        }
    }
    Ok(types)
}
