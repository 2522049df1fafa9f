//! The calls of EC2 that describe instances which do not exist yet. Nothing is changed.

use serde::Deserialize;

use super::AwsService;
use super::autoscaling::LaunchTemplateRef;
use super::query::{Failure, List, Parameters};

const VERSION: &str = "2016-11-15";

/// EC2 in a region.
pub(crate) struct Ec2 {
    service: AwsService,
}

/// What a launch template says about its instances.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct LaunchTemplate {
    pub(crate) image_id: String,
    pub(crate) instance_type: String,
    pub(crate) instance_requirements: Option<InstanceRequirements>,
}

/// What an instance of a group must have at least, in place of a type. EC2 writes the names in lower case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct InstanceRequirements {
    #[serde(alias = "vCpuCount")]
    pub(crate) v_cpu_count: Least,
    #[serde(rename = "MemoryMiB", alias = "memoryMiB")]
    pub(crate) memory_mib: Least,
    #[serde(alias = "acceleratorCount")]
    pub(crate) accelerator_count: Least,
    #[serde(alias = "acceleratorManufacturers", alias = "acceleratorManufacturerSet")]
    pub(crate) accelerator_manufacturers: List<String>,
}

/// A range, of which only the lower end matters.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Least {
    #[serde(alias = "min")]
    pub(crate) min: u64,
}

/// A type of instance.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceType {
    pub(crate) v_cpu_info: VCpus,
    pub(crate) memory_info: Memory,
    #[serde(default)]
    pub(crate) gpu_info: Gpus,
    #[serde(default)]
    pub(crate) processor_info: Processor,
}

/// The cores of a type.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VCpus {
    #[serde(rename = "defaultVCpus")]
    pub(crate) count: u64,
}

/// The memory of a type.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Memory {
    #[serde(rename = "sizeInMiB")]
    pub(crate) mib: u64,
}

/// The GPUs of a type.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Gpus {
    pub(crate) gpus: List<Gpu>,
}

/// GPUs of one kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Gpu {
    pub(crate) count: u64,
    pub(crate) manufacturer: String,
}

/// The processor of a type.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Processor {
    pub(crate) supported_architectures: List<String>,
}

/// What instances boot from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Image {
    pub(crate) architecture: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionsAnswer {
    #[serde(default)]
    launch_template_version_set: List<VersionItem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionItem {
    launch_template_data: LaunchTemplate,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypesAnswer {
    #[serde(default)]
    instance_type_set: List<InstanceType>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImagesAnswer {
    #[serde(default)]
    images_set: List<Image>,
}

impl Ec2 {
    pub(crate) fn new(service: AwsService) -> Self {
        Self { service }
    }

    /// Reads a version of a launch template.
    pub(crate) async fn launch_template(
        &self,
        of: &LaunchTemplateRef,
    ) -> Result<Option<LaunchTemplate>, Failure> {
        let name = match of.id.as_str() {
            "" => ("LaunchTemplateName".to_owned(), of.name.clone()),
            id => ("LaunchTemplateId".to_owned(), id.to_owned()),
        };
        let version = if of.version.is_empty() { "$Default" } else { &of.version };
        let version = ("LaunchTemplateVersion.1".to_owned(), version.to_owned());
        let answer =
            self.service.read(VERSION, "DescribeLaunchTemplateVersions", vec![name, version]);
        let VersionsAnswer { launch_template_version_set: found } = answer.await?;
        Ok(found.into_iter().next().map(|item| item.launch_template_data))
    }

    /// Reads a type of instance; `None` where the region does not have it.
    pub(crate) async fn instance_type(&self, name: &str) -> Result<Option<InstanceType>, Failure> {
        // A filter, because a type that does not exist is an error elsewhere.
        let filter = filter("instance-type", name);
        let answer = self.service.read(VERSION, "DescribeInstanceTypes", filter);
        let TypesAnswer { instance_type_set: found } = answer.await?;
        Ok(found.into_iter().next())
    }

    /// Reads an image; `None` where it does not exist or may not be seen.
    pub(crate) async fn image(&self, id: &str) -> Result<Option<Image>, Failure> {
        let answer = self.service.read(VERSION, "DescribeImages", filter("image-id", id));
        let ImagesAnswer { images_set: found } = answer.await?;
        Ok(found.into_iter().next())
    }
}

fn filter(name: &str, value: &str) -> Parameters {
    vec![
        ("Filter.1.Name".to_owned(), name.to_owned()),
        ("Filter.1.Value.1".to_owned(), value.to_owned()),
    ]
}
