#include "base/workers.h"

#include <asio/post.hpp>
#include <asio/thread_pool.hpp>

namespace penstock {

Workers::Workers(size_t threads) : pool_(std::make_unique<asio::thread_pool>(threads)) {}
Workers::~Workers() = default;

void Workers::Post(std::move_only_function<void()> function) { asio::post(*pool_, std::move(function)); }
void Workers::Join() { pool_->join(); }

}  // namespace penstock
