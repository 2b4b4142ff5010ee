/**
 * @file
 * An RDMA provider of the program in C++20: only headers, over the C functions of provider.h, which say more about each
 * of them.
 *
 *     class Fabric : public penstock::BasicProvider { ... };
 *
 *     penstock::Provider fabric = penstock::Provider::Make(std::make_shared<Fabric>()).value();
 *     penstock_server_options options = PENSTOCK_SERVER_OPTIONS_INIT;
 *     options.provider = fabric.get();
 *     penstock::Runtime runtime = penstock::Runtime::Make({.provider = fabric.shared()}).value();
 */
#ifndef PENSTOCK_PROVIDER_HPP
#define PENSTOCK_PROVIDER_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/detail/host_function.hpp"
#include "penstock/provider.h"
#include "penstock/result.hpp"

namespace penstock::inline v1 {

namespace detail {
class ProviderFunctions;
}

/** The pieces of a message. They are described until the method returns; their octets stay until the request ends. */
using RdmaPieces = std::span<const penstock_rdma_piece>;

/**
 * One end of a connection: see penstock_provider_ops. Derive a class and override the methods. The library destroys the
 * object in the place of penstock_provider_ops::close, and after Reject(). When the destructor returns, no thread of
 * the program accesses memory that the object was given.
 *
 * One thread at a time calls the methods, that of the connection's loop. A method may throw: then it has failed, as if
 * it had returned an Error.
 */
class BasicEndpoint {
 public:
  /** An endpoint that BasicProvider::Connect() makes, or one of a peer that asks for a connection. */
  explicit BasicEndpoint(uint64_t connection = 0) : connection_(connection) {}
  virtual ~BasicEndpoint() = default;
  BasicEndpoint(const BasicEndpoint&) = delete;
  BasicEndpoint& operator=(const BasicEndpoint&) = delete;

  /** The library's number of the connection, for the methods of Provider. Zero before BasicProvider::Requested(). */
  uint64_t connection() const { return connection_; }

  /** See penstock_provider_ops::accept. */
  virtual Result<void> Accept(const penstock_rdma_terms& terms) = 0;
  /** See penstock_provider_ops::reject. The object is destroyed afterwards. */
  virtual void Reject(std::span<const std::byte> private_data) = 0;
  /** See penstock_provider_ops::post_receive. */
  virtual Result<void> PostReceive(const penstock_rdma_receive& receive) = 0;
  /** See penstock_provider_ops::send. */
  virtual Result<void> Send(uint64_t request, RdmaPieces pieces, std::optional<uint32_t> invalidate,
                            bool solicited) = 0;
  /** See penstock_provider_ops::write. */
  virtual Result<void> Write(uint64_t request, RdmaPieces pieces, const penstock_rdma_segment& remote) = 0;
  /** See penstock_provider_ops::read. */
  virtual Result<void> Read(uint64_t request, std::span<std::byte> to, const penstock_rdma_segment& remote) = 0;
  /** The names of exposed memory. */
  struct Exposed {
    uint32_t stag = 0;   /**< The steering tag. */
    uint64_t offset = 0; /**< The tagged offset of the first octet. */
  };
  /** See penstock_provider_ops::expose. */
  virtual Result<Exposed> Expose(std::span<std::byte> memory, penstock_rdma_access access) = 0;
  /** See penstock_provider_ops::invalidate. */
  virtual Result<void> Invalidate(uint64_t request, uint32_t stag) = 0;
  /** See penstock_provider_ops::disconnect. */
  virtual Result<void> Disconnect() = 0;

 private:
  friend class BasicProvider;
  uint64_t connection_;
};

/** A listener. The destructor is penstock_provider_ops::stop_listening. */
class BasicListener {
 public:
  virtual ~BasicListener() = default;
};

/**
 * A provider of the program. Derive a class, override the methods, and give an object to Provider::Make(). Several
 * threads call the methods at a time. A method may throw: then it has failed.
 *
 * The methods of this class that are not virtual tell the library what has happened. They may be called after
 * Provider::Make(), by any thread; calls for one connection are made one after another. They do not block, and call no
 * method of the program.
 */
class BasicProvider {
 public:
  virtual ~BasicProvider() = default;

  /** See penstock_provider_ops::connect. `connection` is for the constructor of BasicEndpoint. */
  virtual Result<std::unique_ptr<BasicEndpoint>> Connect(uint64_t connection, const char* address,
                                                         const penstock_rdma_terms& terms) = 0;
  /** A listener that listens. */
  struct Listening {
    std::unique_ptr<BasicListener> listener; /**< Not null. */
    std::string address;                     /**< "192.0.2.7:20049", with the port. At most 63 characters. */
  };
  /** See penstock_provider_ops::listen. */
  virtual Result<Listening> Listen(uint64_t listener, const char* address) = 0;
  /** Whether the library gets its buffers from Allocate(). */
  virtual bool has_memory() const { return false; }
  /** See penstock_provider_ops::allocate. */
  virtual void* Allocate(size_t /*size*/, size_t /*alignment*/) { return nullptr; }
  /** See penstock_provider_ops::release. */
  virtual void Release(void* /*memory*/, size_t /*size*/) {}

  /** See penstock_provider_requested(). The library takes `endpoint`, unless there is an error. */
  Result<void> Requested(uint64_t listener, std::unique_ptr<BasicEndpoint>& endpoint, const penstock_rdma_peer& peer) {
    BasicEndpoint* const given = endpoint.get();
    if (!given) return Error{EINVAL, "there is no endpoint"};
    const int told = penstock_provider_requested(raw_, listener, given, &peer, &given->connection_);
    // From here on the library may have destroyed it.
    if (told == 0) (void)endpoint.release();
    return ResultOf(told);
  }
  /** See penstock_provider_connected(). `peer` is null after BasicEndpoint::Accept(). */
  Result<void> Connected(uint64_t connection, const penstock_rdma_peer* peer = nullptr) {
    return ResultOf(penstock_provider_connected(raw_, connection, peer));
  }
  /** See penstock_provider_received(). */
  Result<void> Received(uint64_t connection, uint64_t request, size_t length,
                        std::optional<uint32_t> invalidated = std::nullopt, bool solicited = false) {
    const uint32_t* const stag = invalidated ? &*invalidated : nullptr;
    return ResultOf(penstock_provider_received(raw_, connection, request, length, stag, solicited ? 1 : 0));
  }
  /** See penstock_provider_completed(). */
  Result<void> Completed(uint64_t connection, uint64_t request) {
    return ResultOf(penstock_provider_completed(raw_, connection, request));
  }
  /** See penstock_provider_ended(). */
  Result<void> Ended(uint64_t connection, const penstock_rdma_end& end) {
    return ResultOf(penstock_provider_ended(raw_, connection, &end));
  }

 private:
  friend class Provider;
  static Result<void> ResultOf(int told) {
    if (told < 0) return Error{-told, penstock_error_text()};
    return {};
  }

  penstock_provider* raw_ = nullptr;
};

namespace detail {

// The C functions over the methods of BasicProvider and BasicEndpoint.
class ProviderFunctions {
 public:
  static penstock_provider_ops Table(bool has_memory) {
    penstock_provider_ops ops = PENSTOCK_PROVIDER_OPS_INIT;
    ops.connect = [](void* self, uint64_t connection, const char* address, const penstock_rdma_terms* terms,
                     void** endpoint) {
      return Run([&]() -> Result<void> {
        auto made = ProviderOf(self).Connect(connection, address, *terms);
        if (!made) return std::move(made).error();
        *endpoint = (*std::move(made)).release();
        return {};
      });
    };
    ops.listen = [](void* self, uint64_t listener, const char* address, char* actual, size_t size, void** pointer) {
      return Run([&]() -> Result<void> {
        auto listening = ProviderOf(self).Listen(listener, address);
        if (!listening) return std::move(listening).error();
        if (listening->address.size() >= size) return Error{ENAMETOOLONG};
        std::memcpy(actual, listening->address.c_str(), listening->address.size() + 1);
        *pointer = listening->listener.release();
        return {};
      });
    };
    ops.stop_listening = [](void* listener) { delete static_cast<BasicListener*>(listener); };
    ops.accept = [](void* endpoint, const penstock_rdma_terms* terms) {
      return Run([&] { return EndpointOf(endpoint).Accept(*terms); });
    };
    ops.reject = [](void* endpoint, const void* private_data, size_t size) {
      const std::unique_ptr<BasicEndpoint> rejected(&EndpointOf(endpoint));
      (void)Run([&]() -> Result<void> {
        rejected->Reject(std::span(static_cast<const std::byte*>(private_data), size));
        return {};
      });
    };
    ops.post_receive = [](void* endpoint, const penstock_rdma_receive* receive) {
      return Run([&] { return EndpointOf(endpoint).PostReceive(*receive); });
    };
    ops.send = [](void* endpoint, uint64_t request, const penstock_rdma_piece* pieces, size_t count,
                  const uint32_t* invalidate, int solicited) {
      const std::optional<uint32_t> stag = invalidate ? std::optional(*invalidate) : std::nullopt;
      return Run([&] { return EndpointOf(endpoint).Send(request, RdmaPieces(pieces, count), stag, solicited != 0); });
    };
    ops.write = [](void* endpoint, uint64_t request, const penstock_rdma_piece* pieces, size_t count,
                   const penstock_rdma_segment* remote) {
      return Run([&] { return EndpointOf(endpoint).Write(request, RdmaPieces(pieces, count), *remote); });
    };
    ops.read = [](void* endpoint, uint64_t request, void* to, const penstock_rdma_segment* remote) {
      const std::span place(static_cast<std::byte*>(to), remote->length);
      return Run([&] { return EndpointOf(endpoint).Read(request, place, *remote); });
    };
    ops.expose = [](void* endpoint, void* memory, size_t size, penstock_rdma_access access, uint32_t* stag,
                    uint64_t* offset) {
      return Run([&]() -> Result<void> {
        const auto exposed = EndpointOf(endpoint).Expose(std::span(static_cast<std::byte*>(memory), size), access);
        if (!exposed) return exposed.error();
        *stag = exposed->stag;
        *offset = exposed->offset;
        return {};
      });
    };
    ops.invalidate = [](void* endpoint, uint64_t request, uint32_t stag) {
      return Run([&] { return EndpointOf(endpoint).Invalidate(request, stag); });
    };
    ops.disconnect = [](void* endpoint) { return Run([&] { return EndpointOf(endpoint).Disconnect(); }); };
    ops.close = [](void* endpoint) { delete &EndpointOf(endpoint); };
    if (!has_memory) return ops;
    ops.allocate = [](void* self, size_t size, size_t alignment) -> void* {
      void* memory = nullptr;
      (void)RunHostFunction([&]() -> int64_t {
        memory = ProviderOf(self).Allocate(size, alignment);
        return 0;
      });
      return memory;
    };
    ops.release = [](void* self, void* memory, size_t size) { ProviderOf(self).Release(memory, size); };
    return ops;
  }

 private:
  static BasicProvider& ProviderOf(void* self) { return *static_cast<BasicProvider*>(self); }
  static BasicEndpoint& EndpointOf(void* endpoint) { return *static_cast<BasicEndpoint*>(endpoint); }
  template <class Function>
  static int Run(Function function) noexcept {
    return static_cast<int>(RunHostFunction([&]() -> int64_t {
      const Result<void> done = function();
      return done ? 0 : NegativeErrno(done.error());
    }));
  }
};

}  // namespace detail

/**
 * A provider that runtimes and servers can use. Copies are the same provider. A Runtime keeps it alive; destroy it
 * after the servers that have it.
 */
class Provider {
 public:
  /**
   * Makes one of an object.
   *
   * @param implementation  It lives until no copy of the result is left. It is given to one Provider.
   * @param options         Its properties.
   */
  static Result<Provider> Make(std::shared_ptr<BasicProvider> implementation,
                               const penstock_provider_options& options = PENSTOCK_PROVIDER_OPTIONS_INIT) {
    if (!implementation || implementation->raw_) return Error{EINVAL, "it belongs to another provider, or is null"};
    const penstock_provider_ops ops = detail::ProviderFunctions::Table(implementation->has_memory());
    penstock_provider* made = nullptr;
    const int result = penstock_provider_new(&ops, implementation.get(), &options, &made);
    if (result < 0) return Error{-result, penstock_error_text()};
    implementation->raw_ = made;
    // If a server has it still, it is not freed, and its object stays.
    const auto free = [implementation](penstock_provider* provider) mutable {
      if (penstock_provider_free(provider) < 0) new std::shared_ptr<BasicProvider>(std::move(implementation));
    };
    return Provider(std::shared_ptr<penstock_provider>(made, free));
  }

  /** For the C functions and penstock_server_options. It lives as long as this object. */
  penstock_provider* get() const { return provider_.get(); }
  /** For RuntimeOptions::provider. */
  const std::shared_ptr<penstock_provider>& shared() const { return provider_; }

 private:
  explicit Provider(std::shared_ptr<penstock_provider> provider) : provider_(std::move(provider)) {}

  std::shared_ptr<penstock_provider> provider_;
};

}  // namespace penstock::inline v1

#endif
