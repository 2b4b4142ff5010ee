/**
 * @file
 * The entries of a directory.
 */
#ifndef PENSTOCK_LISTING_HPP
#define PENSTOCK_LISTING_HPP

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include "penstock/attributes.hpp"
#include "penstock/penstock.h"

namespace penstock::inline v1 {

/** An entry of a directory. */
struct Entry {
  std::string_view name;                  /**< The name. Valid until the listing is destroyed. */
  std::optional<Attributes> attributes{}; /**< The attributes, of a symbolic link itself, if the server told them. */
};

/**
 * All entries of a directory but "." and "..", in the server's order, at the time when the directory was read. It is a
 * std::ranges::input_range of Entry: `for (const Entry& entry : listing)`. It needs no mount. One thread at a time may
 * use it.
 */
class Listing {
 public:
  /** Goes over the entries. All iterators of a listing share its position. */
  class Iterator {
   public:
    using value_type = Entry;                         /**< An entry. */
    using difference_type = std::ptrdiff_t;           /**< For the standard library. */
    using iterator_concept = std::input_iterator_tag; /**< For the standard library. */

    /** Makes an iterator that can only be assigned to. */
    Iterator() = default;
    /** Returns the entry. It is valid until the iterator advances. */
    const Entry& operator*() const noexcept { return *entry_; }
    /** Returns the entry. It is valid until the iterator advances. */
    const Entry* operator->() const noexcept { return &*entry_; }
    /** Advances to the next entry. */
    Iterator& operator++() {
      Advance();
      return *this;
    }
    /** Advances to the next entry. */
    void operator++(int) { Advance(); }
    /** Tells whether there is no entry left. */
    friend bool operator==(const Iterator& iterator, std::default_sentinel_t) noexcept { return !iterator.entry_; }

   private:
    friend Listing;
    explicit Iterator(penstock_listing* listing) : listing_(listing) { Advance(); }

    void Advance() {
      penstock_entry entry = PENSTOCK_ENTRY_INIT;
      entry_.reset();
      if (penstock_listing_next(listing_, &entry) != 1) return;
      entry_.emplace(Entry{.name = entry.name});
      if (entry.attributes) entry_->attributes = detail::FromC(*entry.attributes);
    }

    penstock_listing* listing_ = nullptr;
    std::optional<Entry> entry_;
  };

  /** Returns the number of entries. */
  size_t size() const noexcept { return size_; }
  /** Tells whether the directory is empty. */
  bool empty() const noexcept { return size_ == 0; }
  /** Begins again at the first entry. */
  Iterator begin() {
    penstock_listing_rewind(listing_.get());
    return Iterator(listing_.get());
  }
  /** Returns the end of the entries. */
  std::default_sentinel_t end() const noexcept { return std::default_sentinel; }

  /** @cond internal */
  Listing(penstock_listing* listing, size_t size) noexcept : listing_(listing), size_(size) {}
  /** @endcond */

 private:
  struct Free {
    void operator()(penstock_listing* listing) const noexcept { penstock_listing_free(listing); }
  };

  std::unique_ptr<penstock_listing, Free> listing_;
  size_t size_;
};

}  // namespace penstock::inline v1

#endif
