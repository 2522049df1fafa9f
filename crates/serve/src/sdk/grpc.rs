//! The SDK over gRPC: the stable, beta and alpha services.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::calls::Mask;
use super::core::Core;
use super::refusal::Refusal;
use crate::proto::{alpha, beta, sdk};

/// The three services; each is the same core under another contract.
pub(super) struct Service(pub(super) Arc<Core>);

type Answer<T> = Result<Response<T>, Status>;

fn answer<T>(result: Result<T, Refusal>) -> Answer<T> {
    Ok(Response::new(result?))
}

fn done(result: Result<(), Refusal>) -> Answer<sdk::Empty> {
    answer(result.map(|()| sdk::Empty {}))
}

#[tonic::async_trait]
impl sdk::sdk_server::Sdk for Service {
    type WatchGameServerStream =
        Pin<Box<dyn Stream<Item = Result<sdk::GameServer, Status>> + Send>>;

    async fn ready(&self, _: Request<sdk::Empty>) -> Answer<sdk::Empty> {
        done(self.0.set_ready().await)
    }

    async fn allocate(&self, _: Request<sdk::Empty>) -> Answer<sdk::Empty> {
        done(self.0.allocate().await)
    }

    async fn shutdown(&self, _: Request<sdk::Empty>) -> Answer<sdk::Empty> {
        done(self.0.shutdown().await)
    }

    async fn health(&self, request: Request<Streaming<sdk::Empty>>) -> Answer<sdk::Empty> {
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
        done(Ok(()))
    }

    async fn get_game_server(&self, _: Request<sdk::Empty>) -> Answer<sdk::GameServer> {
        answer(self.0.game_server().await)
    }

    async fn watch_game_server(
        &self,
        _: Request<sdk::Empty>,
    ) -> Answer<Self::WatchGameServerStream> {
        let views = self.0.watching().await?;
        let views: Self::WatchGameServerStream = Box::pin(views.map(|view| Ok((*view).clone())));
        Ok(Response::new(views))
    }

    async fn set_label(&self, request: Request<sdk::KeyValue>) -> Answer<sdk::Empty> {
        let asked = request.into_inner();
        done(self.0.set_label(&asked.key, &asked.value).await)
    }

    async fn set_annotation(&self, request: Request<sdk::KeyValue>) -> Answer<sdk::Empty> {
        let asked = request.into_inner();
        done(self.0.set_annotation(&asked.key, &asked.value).await)
    }

    async fn reserve(&self, request: Request<sdk::Duration>) -> Answer<sdk::Empty> {
        done(self.0.reserve(request.into_inner().seconds).await)
    }
}

#[tonic::async_trait]
impl beta::sdk_server::Sdk for Service {
    async fn get_counter(
        &self,
        request: Request<beta::GetCounterRequest>,
    ) -> Answer<beta::Counter> {
        answer(self.0.counter(&request.into_inner().name).await)
    }

    async fn update_counter(
        &self,
        request: Request<beta::UpdateCounterRequest>,
    ) -> Answer<beta::Counter> {
        let missing = || Refusal::argument("CounterUpdateRequest: <nil> cannot be nil");
        let asked = request.into_inner().counter_update_request.ok_or_else(missing)?;
        answer(self.0.update_counter(asked).await)
    }

    async fn get_list(&self, request: Request<beta::GetListRequest>) -> Answer<beta::List> {
        answer(self.0.list(&request.into_inner().name).await)
    }

    async fn update_list(&self, request: Request<beta::UpdateListRequest>) -> Answer<beta::List> {
        let asked = request.into_inner();
        let (Some(list), Some(mask)) = (asked.list, asked.update_mask) else {
            let why = "List and UpdateMask cannot be nil: expected list and update_mask";
            return Err(Refusal::argument(why).into());
        };
        let mask = Mask::read(mask.paths.iter().map(String::as_str), &list)?;
        answer(self.0.update_list(list, mask).await)
    }

    async fn add_list_value(
        &self,
        request: Request<beta::AddListValueRequest>,
    ) -> Answer<beta::List> {
        let asked = request.into_inner();
        answer(self.0.add_value(asked.name, &asked.value).await)
    }

    async fn remove_list_value(
        &self,
        request: Request<beta::RemoveListValueRequest>,
    ) -> Answer<beta::List> {
        let asked = request.into_inner();
        answer(self.0.remove_value(asked.name, &asked.value).await)
    }
}

#[tonic::async_trait]
impl alpha::sdk_server::Sdk for Service {
    async fn player_connect(&self, request: Request<alpha::PlayerId>) -> Answer<alpha::Bool> {
        let id = request.into_inner().player_id;
        answer(self.0.player_connect(&id).await.map(|bool| alpha::Bool { bool }))
    }

    async fn player_disconnect(&self, request: Request<alpha::PlayerId>) -> Answer<alpha::Bool> {
        let id = request.into_inner().player_id;
        answer(self.0.player_disconnect(&id).await.map(|bool| alpha::Bool { bool }))
    }

    async fn set_player_capacity(&self, request: Request<alpha::Count>) -> Answer<alpha::Empty> {
        let set = self.0.set_player_capacity(request.into_inner().count).await;
        answer(set.map(|()| alpha::Empty {}))
    }

    async fn get_player_capacity(&self, _: Request<alpha::Empty>) -> Answer<alpha::Count> {
        answer(self.0.player_capacity().await.map(|count| alpha::Count { count }))
    }

    async fn get_player_count(&self, _: Request<alpha::Empty>) -> Answer<alpha::Count> {
        answer(self.0.player_count().await.map(|count| alpha::Count { count }))
    }

    async fn is_player_connected(&self, request: Request<alpha::PlayerId>) -> Answer<alpha::Bool> {
        let id = request.into_inner().player_id;
        answer(self.0.is_player_connected(&id).await.map(|bool| alpha::Bool { bool }))
    }

    async fn get_connected_players(&self, _: Request<alpha::Empty>) -> Answer<alpha::PlayerIdList> {
        answer(self.0.connected_players().await.map(|list| alpha::PlayerIdList { list }))
    }
}
