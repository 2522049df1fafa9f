//! The SDK over gRPC: the stable, beta and alpha services.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::calls::Mask;
use super::core::Core;
use super::error::CallError;
use crate::proto::{alpha, beta, sdk};

/// Implements the three services on one core.
pub(super) struct Service(pub(super) Arc<Core>);

type GrpcResult<T> = Result<Response<T>, Status>;

fn respond<T>(result: Result<T, CallError>) -> GrpcResult<T> {
    Ok(Response::new(result?))
}

fn respond_empty(result: Result<(), CallError>) -> GrpcResult<sdk::Empty> {
    respond(result.map(|()| sdk::Empty {}))
}

#[tonic::async_trait]
impl sdk::sdk_server::Sdk for Service {
    type WatchGameServerStream =
        Pin<Box<dyn Stream<Item = Result<sdk::GameServer, Status>> + Send>>;

    async fn ready(&self, _: Request<sdk::Empty>) -> GrpcResult<sdk::Empty> {
        respond_empty(self.0.set_ready().await)
    }

    async fn allocate(&self, _: Request<sdk::Empty>) -> GrpcResult<sdk::Empty> {
        respond_empty(self.0.allocate().await)
    }

    async fn shutdown(&self, _: Request<sdk::Empty>) -> GrpcResult<sdk::Empty> {
        respond_empty(self.0.shutdown().await)
    }

    async fn health(&self, request: Request<Streaming<sdk::Empty>>) -> GrpcResult<sdk::Empty> {
        let mut pings = request.into_inner();
        loop {
            tokio::select! {
                () = self.0.stop.cancelled() => break,
                ping = pings.next() => match ping {
                    Some(ping) => {
                        ping?;
                        self.0.ping();
                    }
                    None => break,
                },
            }
        }
        respond_empty(Ok(()))
    }

    async fn get_game_server(&self, _: Request<sdk::Empty>) -> GrpcResult<sdk::GameServer> {
        respond(self.0.game_server().await)
    }

    async fn watch_game_server(
        &self,
        _: Request<sdk::Empty>,
    ) -> GrpcResult<Self::WatchGameServerStream> {
        let updates = self.0.watch_game_server().await?;
        let updates: Self::WatchGameServerStream =
            Box::pin(updates.map(|update| Ok((*update).clone())));
        Ok(Response::new(updates))
    }

    async fn set_label(&self, request: Request<sdk::KeyValue>) -> GrpcResult<sdk::Empty> {
        let message = request.into_inner();
        respond_empty(self.0.set_label(&message.key, &message.value).await)
    }

    async fn set_annotation(&self, request: Request<sdk::KeyValue>) -> GrpcResult<sdk::Empty> {
        let message = request.into_inner();
        respond_empty(self.0.set_annotation(&message.key, &message.value).await)
    }

    async fn reserve(&self, request: Request<sdk::Duration>) -> GrpcResult<sdk::Empty> {
        respond_empty(self.0.reserve(request.into_inner().seconds).await)
    }
}

#[tonic::async_trait]
impl beta::sdk_server::Sdk for Service {
    async fn get_counter(
        &self,
        request: Request<beta::GetCounterRequest>,
    ) -> GrpcResult<beta::Counter> {
        respond(self.0.counter(&request.into_inner().name).await)
    }

    async fn update_counter(
        &self,
        request: Request<beta::UpdateCounterRequest>,
    ) -> GrpcResult<beta::Counter> {
        let missing = || CallError::invalid_argument("CounterUpdateRequest: <nil> cannot be nil");
        let message = request.into_inner().counter_update_request.ok_or_else(missing)?;
        respond(self.0.update_counter(message).await)
    }

    async fn get_list(&self, request: Request<beta::GetListRequest>) -> GrpcResult<beta::List> {
        respond(self.0.list(&request.into_inner().name).await)
    }

    async fn update_list(
        &self,
        request: Request<beta::UpdateListRequest>,
    ) -> GrpcResult<beta::List> {
        let message = request.into_inner();
        let (Some(list), Some(mask)) = (message.list, message.update_mask) else {
            let reason = "List and UpdateMask cannot be nil: expected list and update_mask";
            return Err(CallError::invalid_argument(reason).into());
        };
        let mask = Mask::read(mask.paths.iter().map(String::as_str), &list)?;
        respond(self.0.update_list(list, mask).await)
    }

    async fn add_list_value(
        &self,
        request: Request<beta::AddListValueRequest>,
    ) -> GrpcResult<beta::List> {
        let message = request.into_inner();
        respond(self.0.add_list_value(message.name, &message.value).await)
    }

    async fn remove_list_value(
        &self,
        request: Request<beta::RemoveListValueRequest>,
    ) -> GrpcResult<beta::List> {
        let message = request.into_inner();
        respond(self.0.remove_list_value(message.name, &message.value).await)
    }
}

#[tonic::async_trait]
impl alpha::sdk_server::Sdk for Service {
    async fn player_connect(&self, request: Request<alpha::PlayerId>) -> GrpcResult<alpha::Bool> {
        let id = request.into_inner().player_id;
        respond(self.0.player_connect(&id).await.map(|bool| alpha::Bool { bool }))
    }

    async fn player_disconnect(
        &self,
        request: Request<alpha::PlayerId>,
    ) -> GrpcResult<alpha::Bool> {
        let id = request.into_inner().player_id;
        respond(self.0.player_disconnect(&id).await.map(|bool| alpha::Bool { bool }))
    }

    async fn set_player_capacity(
        &self,
        request: Request<alpha::Count>,
    ) -> GrpcResult<alpha::Empty> {
        let set = self.0.set_player_capacity(request.into_inner().count).await;
        respond(set.map(|()| alpha::Empty {}))
    }

    async fn get_player_capacity(&self, _: Request<alpha::Empty>) -> GrpcResult<alpha::Count> {
        respond(self.0.player_capacity().await.map(|count| alpha::Count { count }))
    }

    async fn get_player_count(&self, _: Request<alpha::Empty>) -> GrpcResult<alpha::Count> {
        respond(self.0.player_count().await.map(|count| alpha::Count { count }))
    }

    async fn is_player_connected(
        &self,
        request: Request<alpha::PlayerId>,
    ) -> GrpcResult<alpha::Bool> {
        let id = request.into_inner().player_id;
        respond(self.0.is_player_connected(&id).await.map(|bool| alpha::Bool { bool }))
    }

    async fn get_connected_players(
        &self,
        _: Request<alpha::Empty>,
    ) -> GrpcResult<alpha::PlayerIdList> {
        respond(self.0.connected_players().await.map(|list| alpha::PlayerIdList { list }))
    }
}
