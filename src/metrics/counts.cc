#include "metrics/counts.h"

#include <utility>

namespace penstock::metrics {

ConnectionCounts::ConnectionCounts(std::shared_ptr<Counts> counts, size_t loop, const std::optional<IpAddress>& address,
                                   TransportCounts* transport)
    : counts_(std::move(counts)),
      loop_index_(loop),
      loop_(counts_->loop(loop)),
      address_(address),
      transport_(transport) {
  if (transport_) transport_->accepted.Add();
}

void ConnectionCounts::Name() {
  client_ = address_ ? counts_->clients().Enter(*address_) : counts_->clients().others();
  share_ = &client_->share(loop_index_);
}

ConnectionCounts::~ConnectionCounts() {
  if (!transport_) return;
  transport_->closed[static_cast<size_t>(end_)].Add();
  if (client_) counts_->clients().Leave(*client_);
}

Counts::Counts(std::vector<Interface> interfaces, size_t loops) : interfaces_(std::move(interfaces)), clients_(loops) {
  for (size_t i = 0; i < loops; ++i) loops_.push_back(std::make_unique<LoopCounts>(interfaces_, clock_, exports_));
}

std::shared_ptr<ConnectionCounts> Recorder::Connect(Transport transport, const IpAddress& client) const {
  if (!counts_) return nullptr;
  return std::make_shared<ConnectionCounts>(counts_, loop_, client, &counts_->transport(transport));
}

std::shared_ptr<ConnectionCounts> Recorder::ForDatagrams() const {
  if (!counts_) return nullptr;
  return std::make_shared<ConnectionCounts>(counts_, loop_, std::nullopt, nullptr);
}

void Recorder::Refuse(Transport transport, ConnectionRefusal why) const {
  if (counts_) counts_->transport(transport).refused[static_cast<size_t>(why)].Add();
}

}  // namespace penstock::metrics
