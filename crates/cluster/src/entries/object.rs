//! An object that is cached as it is.

use std::fmt::Debug;
use std::ops::Deref;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::CacheEntry;

/// A whole object without its field managers, for kinds of which there are few.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CachedObject<K>(pub K);

impl<K> Deref for CachedObject<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K> CacheEntry for CachedObject<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    type Object = K;

    fn from_object(mut object: K) -> Self {
        object.meta_mut().managed_fields = None;
        Self(object)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }
}
