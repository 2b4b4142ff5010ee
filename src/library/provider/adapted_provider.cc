#include "library/provider/adapted_provider.h"

#include <cassert>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "library/provider/host_connection.h"
#include "library/provider/host_listener.h"

namespace penstock::library {
namespace {

class AdaptedRequest : public rdma::ConnectionRequest {
 public:
  AdaptedRequest(std::shared_ptr<HostConnection> connection, std::shared_ptr<void> place)
      : connection_(std::move(connection)), place_(std::move(place)) {}
  ~AdaptedRequest() override { connection_->Reject({}); }

  const rdma::Address& peer() const override { return connection_->peer().peer; }
  ConstBytes private_data() const override { return connection_->peer().private_data; }
  std::optional<rdma::ReadDepths> read_depths() const override { return connection_->peer().depths; }
  Task<rdma::ConnectResult> Accept(rdma::ConnectOptions options) override {
    return connection_->Accept(std::move(options));
  }
  void Reject(std::vector<std::byte> private_data) override { connection_->Reject(private_data); }

  // The peer has given up.
  bool over() const { return connection_->over(); }
  // The owner has the request: the peer does not wait for the library any more.
  void LeavePlace() { place_.reset(); }

 private:
  const std::shared_ptr<HostConnection> connection_;
  std::shared_ptr<void> place_;
};

class AdaptedListener : public rdma::Listener, public PeerTaker {
 public:
  AdaptedListener(std::shared_ptr<HostLoop> loop, std::shared_ptr<HostListener> shared, uint64_t number)
      : loop_(std::move(loop)), shared_(std::move(shared)), number_(number) {
    loop_->AddListener(number_, *this);
  }
  ~AdaptedListener() override { Close(); }

  rdma::Address local() const override { return shared_->local(); }

  Task<std::unique_ptr<rdma::ConnectionRequest>> Next() override {
    assert(!waiting_);
    while (!requests_.empty()) {
      std::unique_ptr<AdaptedRequest> request = std::move(requests_.front());
      requests_.pop_front();
      request->LeavePlace();
      if (!request->over()) co_return std::move(request);
    }
    if (closed_) co_return nullptr;
    OneShot<std::unique_ptr<rdma::ConnectionRequest>> next;
    waiting_ = &next;
    std::unique_ptr<rdma::ConnectionRequest> request = co_await next;
    co_return std::move(request);  // the listener may be destroyed by now
  }

  void Close() final {
    if (std::exchange(closed_, true)) return;
    loop_->RemoveListener(number_);
    shared_->Leave(number_);
    requests_.clear();
    if (auto* const waiting = std::exchange(waiting_, nullptr)) waiting->Set(nullptr);
  }

  SetupResult<std::unique_ptr<rdma::Listener>> Share(rdma::Provider& other) override {
    auto* const provider = dynamic_cast<AdaptedProvider*>(&other);
    if (!provider || &provider->loop()->host() != &loop_->host()) {
      return std::unexpected(SetupError{"a listener of the host's provider cannot be shared with another provider"});
    }
    const uint64_t number = HostProvider::NewNumber();
    if (closed_ || !shared_->Join(number, provider->loop())) {
      return std::unexpected(SetupError{"the listener is closed"});
    }
    return std::make_unique<AdaptedListener>(provider->loop(), shared_, number);
  }

  void Take(std::shared_ptr<HostConnection> connection, std::shared_ptr<void> place) override {
    auto request = std::make_unique<AdaptedRequest>(std::move(connection), std::move(place));
    if (auto* const waiting = std::exchange(waiting_, nullptr)) {
      request->LeavePlace();
      waiting->Set(std::move(request));
    } else {
      requests_.push_back(std::move(request));
    }
  }

 private:
  const std::shared_ptr<HostLoop> loop_;
  const std::shared_ptr<HostListener> shared_;
  const uint64_t number_;
  std::deque<std::unique_ptr<AdaptedRequest>> requests_;
  OneShot<std::unique_ptr<rdma::ConnectionRequest>>* waiting_ = nullptr;  // lives in the frame of Next()
  bool closed_ = false;
};

}  // namespace

Task<rdma::ConnectResult> AdaptedProvider::Connect(rdma::Address peer, rdma::ConnectOptions options) {
  const auto connection = std::make_shared<HostConnection>(loop_);
  co_return co_await connection->Connect(std::move(peer), std::move(options));
}

SetupResult<std::unique_ptr<rdma::Listener>> AdaptedProvider::Listen(rdma::Address local) {
  const auto shared = std::make_shared<HostListener>(loop_->host());
  const uint64_t number = HostProvider::NewNumber();
  PENSTOCK_CHECK(shared->Listen(local, number, loop_));
  return std::make_unique<AdaptedListener>(loop_, shared, number);
}

}  // namespace penstock::library
