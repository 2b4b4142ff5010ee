// The channel for calls to the client of a ServedConnection.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/signal.h"
#include "rpc/step_up.h"
#include "rpc/tcp/served_connection.h"

namespace penstock::rpc::tcp {

// The channel for calls to the client. The rest of the program holds it, also after the connection has stepped up.
class ServedConnection::Back final : public LastingBackChannel, public std::enable_shared_from_this<Back> {
 public:
  explicit Back(ServedConnection& connection) : LastingBackChannel(connection.peer_), connection_(&connection) {}

  Task<Result<Message, CallError>> Call(Message call, ReplyShape shape) override {
    while (changing_) co_await changed_;
    if (next_) {
      const std::shared_ptr<BackChannel> next = next_;
      co_return co_await next->Call(std::move(call), std::move(shape));
    }
    if (!connection_) co_return std::unexpected(CallError::kDisconnected);
    // The limit on calls is now twice as high: Run() may read more calls, and the reply after them.
    if (connection_->waiting_) PostChange(connection_->loop_, connection_->self_);
    co_return co_await connection_->requester().Call(std::move(call));
  }
  void CloseConnection(std::string why) override {
    loop()->Post([weak = weak_from_this(), why = std::move(why)]() mutable {
      if (const auto self = weak.lock()) self->CloseNow(std::move(why));
    });
  }

  void Withdraw(uint32_t credits, Duration limit) override {
    if (next_) return next_->Withdraw(credits, limit);
    if (changing_) withdrawal_ = Withdrawal{credits, limit};
    if (connection_) connection_->Withdraw(credits);
  }

  // From now on calls wait for Continue().
  void BeginChange() { changing_ = true; }
  // The connection gives its socket away.
  void HandleHandedOver() { connection_ = nullptr; }
  void Continue(std::shared_ptr<BackChannel> next) override {
    next_ = std::move(next);
    if (closing_) next_->CloseConnection(*std::move(closing_));
    if (withdrawal_) next_->Withdraw(withdrawal_->credits, withdrawal_->limit);
    EndChange();
  }
  // Also called when the connection receives nothing more: calls fail from now on.
  void HandleLost() override {
    connection_ = nullptr;
    set_disconnected();
    EndChange();
  }

 private:
  void EndChange() {
    changing_ = false;
    changed_.Notify();
  }
  void CloseNow(std::string why) {
    if (next_) return next_->CloseConnection(std::move(why));
    if (connection_) {
      log::debug("closed a connection: {}", why);
      connection_->Close();
    } else if (changing_) {
      closing_ = std::move(why);
    }
  }

  ServedConnection* connection_;
  bool changing_ = false;
  std::optional<std::string> closing_;  // CloseConnection() during the change, and its reason
  struct Withdrawal {
    uint32_t credits = 0;
    Duration limit{};
  };
  std::optional<Withdrawal> withdrawal_;  // the last Withdraw() during the change
  std::shared_ptr<BackChannel> next_;
  Signal changed_;
};

}  // namespace penstock::rpc::tcp
