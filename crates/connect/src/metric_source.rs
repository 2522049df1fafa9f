//! The connection of a target: the block of the MetricSource that the target names.

use std::sync::{Arc, Mutex, PoisonError};

use cluster::error::{api_message, status_code};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::registry::Context;

/// A connection that is opened again when the MetricSource with its settings changes.
pub(crate) struct SharedConnection<T> {
    context: Context,
    /// The name of the MetricSource.
    name: String,
    /// The block with the settings; `None`: the MetricSource may be of any type, and its whole spec is read.
    driver: Option<&'static str>,
    open: fn(&Context, &Value) -> Result<T, String>,
    opened: Mutex<Option<(Value, Arc<T>)>>,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SourceError {
    /// The API server does not answer.
    #[error("MetricSource {name}: {message}")]
    Unavailable { name: String, message: String },
    /// There is no such MetricSource, or it cannot be used.
    #[error("MetricSource {name}: {message}")]
    Refused { name: String, message: String },
}

impl<T> SharedConnection<T> {
    /// Names the MetricSource; absent: the one with the driver's name.
    pub(crate) fn new(
        context: &Context,
        name: Option<&String>,
        driver: &'static str,
        open: fn(&Context, &Value) -> Result<T, String>,
    ) -> Self {
        let name = name.filter(|name| !name.is_empty()).map_or(driver, String::as_str).to_owned();
        let driver = Some(driver);
        Self { context: context.clone(), name, driver, open, opened: Mutex::default() }
    }

    /// Names a MetricSource of any type.
    pub(crate) fn of_any_type(
        context: &Context,
        name: &str,
        open: fn(&Context, &Value) -> Result<T, String>,
    ) -> Self {
        let (context, name) = (context.clone(), name.to_owned());
        Self { context, name, driver: None, open, opened: Mutex::default() }
    }

    /// Returns the connection with the present settings.
    pub(crate) async fn get(&self) -> Result<Arc<T>, SourceError> {
        let settings = self.settings().await?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, connection)) = &*opened
            && *known == settings
        {
            return Ok(Arc::clone(connection));
        }
        let connection = (self.open)(&self.context, &settings);
        let connection = Arc::new(connection.map_err(|problem| self.refused(problem))?);
        *opened = Some((settings, Arc::clone(&connection)));
        Ok(connection)
    }

    async fn settings(&self) -> Result<Value, SourceError> {
        let kind = GroupVersionKind::gvk("plimsoll.dev", "v1alpha1", "MetricSource");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::all_with(self.context.client.clone(), &resource);
        let found = api.get_opt(&self.name).await.map_err(|err| match status_code(&err) {
            Some(400..=428) => self.refused(api_message(&err)),
            Some(_) | None => {
                SourceError::Unavailable { name: self.name.clone(), message: api_message(&err) }
            }
        })?;
        match (found, self.driver, self.name.as_str()) {
            (Some(object), None, _) => Ok(object.data["spec"].clone()),
            (Some(object), Some(driver), _) => {
                let settings = object.data["spec"].get(driver).cloned();
                settings.ok_or_else(|| self.refused(format!("is not of the type {driver}")))
            }
            // The local engine and the cluster need no settings.
            (None, Some("docker"), "docker") => Ok(json!({})),
            (None, None, name @ ("docker" | "kubernetes")) => Ok(json!({name: {}})),
            (None, _, _) => Err(self.refused("does not exist".to_owned())),
        }
    }

    fn refused(&self, message: String) -> SourceError {
        SourceError::Refused { name: self.name.clone(), message }
    }
}
