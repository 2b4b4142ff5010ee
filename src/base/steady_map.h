// A hash table in which no insertion takes long: linear hashing (Litwin 1980), which divides one bucket at a time.
// std::unordered_map moves all its items when it grows, which takes tenths of a second for a million of them, and
// everyone waits for whoever inserts under a lock or on a loop.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

namespace penstock {

// A subset of std::unordered_map. Look-ups take any type that Hash and Equal take. References and iterators stay valid
// until their item is erased. Iteration is in the order of insertion. The table keeps its buckets, eight octets each,
// when items are erased.
template <class Key, class Value, class Hash = std::hash<Key>, class Equal = std::equal_to<>>
class SteadyMap {
 public:
  using key_type = Key;
  using mapped_type = Value;
  using value_type = std::pair<const Key, Value>;

 private:
  struct Links {
    Links* before = nullptr;
    Links* after = nullptr;
  };
  struct Node : Links {
    template <class... Arguments>
    explicit Node(uint64_t mixed, Arguments&&... arguments)
        : hash(mixed), value(std::forward<Arguments>(arguments)...) {}
    Node* next = nullptr;  // in the bucket
    const uint64_t hash;
    value_type value;
  };

  template <class T>
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = SteadyMap::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    Iterator() = default;
    operator Iterator<const T>() const { return Iterator<const T>(at_); }  // NOLINT: as of standard containers
    T& operator*() const { return static_cast<Node*>(at_)->value; }
    T* operator->() const { return &**this; }
    Iterator& operator++() {
      at_ = at_->after;
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, Iterator(at_->after)); }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    friend class SteadyMap;
    explicit Iterator(Links* at) : at_(at) {}
    Links* at_ = nullptr;
  };

 public:
  using iterator = Iterator<value_type>;
  using const_iterator = Iterator<const value_type>;

  SteadyMap() { ends_.before = ends_.after = &ends_; }
  SteadyMap(const SteadyMap&) = delete;
  SteadyMap& operator=(const SteadyMap&) = delete;
  ~SteadyMap() { clear(); }

  iterator begin() { return iterator(ends_.after); }
  iterator end() { return iterator(&ends_); }
  const_iterator begin() const { return const_iterator(ends_.after); }
  const_iterator end() const { return const_iterator(const_cast<Links*>(&ends_)); }
  size_t size() const { return size_; }
  // The number of items that all insertions so far have looked at to divide buckets: the cost, for tests.
  size_t divided() const { return divided_; }
  bool empty() const { return size_ == 0; }

  template <class Alike>
  iterator find(const Alike& key) {
    return iterator(Find(key, HashOf(key)));
  }
  template <class Alike>
  const_iterator find(const Alike& key) const {
    return const_iterator(Find(key, HashOf(key)));
  }
  // The key is there.
  template <class Alike>
  Value& at(const Alike& key) {
    return find(key)->second;
  }
  template <class Alike>
  const Value& at(const Alike& key) const {
    return find(key)->second;
  }
  template <class Alike>
  bool contains(const Alike& key) const {
    return find(key) != end();
  }

  // Makes a value of `arguments`, unless the key is there.
  template <class Alike, class... Arguments>
  std::pair<iterator, bool> try_emplace(Alike&& key, Arguments&&... arguments) {
    const uint64_t hash = HashOf(key);
    if (Links* const known = Find(key, hash); known != &ends_) return {iterator(known), false};
    if (size_ == buckets_) Divide();
    auto* const node = new Node(hash, std::piecewise_construct, std::forward_as_tuple(std::forward<Alike>(key)),
                                std::forward_as_tuple(std::forward<Arguments>(arguments)...));
    Node*& bucket = Bucket(IndexOf(hash));
    node->next = std::exchange(bucket, node);
    node->before = std::exchange(ends_.before, node);
    node->after = &ends_;
    node->before->after = node;
    ++size_;
    return {iterator(node), true};
  }
  template <class Alike, class Argument>
  std::pair<iterator, bool> emplace(Alike&& key, Argument&& argument) {
    return try_emplace(std::forward<Alike>(key), std::forward<Argument>(argument));
  }
  template <class Alike>
  Value& operator[](Alike&& key) {
    return try_emplace(std::forward<Alike>(key)).first->second;
  }

  iterator erase(const_iterator at) {
    auto* const node = static_cast<Node*>(at.at_);
    Node** link = &Bucket(IndexOf(node->hash));
    while (*link != node) link = &(*link)->next;
    *link = node->next;
    node->before->after = node->after;
    node->after->before = node->before;
    --size_;
    const iterator next(node->after);
    delete node;
    return next;
  }
  iterator erase(iterator at) { return erase(const_iterator(at)); }
  template <class Alike>
  size_t erase(const Alike& key) {
    const iterator at = find(key);
    if (at == end()) return 0;
    erase(at);
    return 1;
  }
  void clear() {
    for (Links* at = ends_.after; at != &ends_;) delete static_cast<Node*>(std::exchange(at, at->after));
    ends_.before = ends_.after = &ends_;
    segments_.clear();
    size_ = buckets_ = 0;
  }

 private:
  // The buckets are in segments, so that none moves: the first has kFirst, and each next one as many as all before it.
  static constexpr size_t kFirst = 4;

  struct Free {
    void operator()(Node** segment) const { std::free(segment); }
  };
  using Segment = std::unique_ptr<Node*[], Free>;

  // The hash functions of numbers do nothing, and the low bits choose the bucket.
  template <class Alike>
  static uint64_t HashOf(const Alike& key) {
    const uint64_t mixed = Hash()(key) * 0x9e37'79b9'7f4a'7c15u;
    return mixed ^ mixed >> 32;
  }

  // The number of buckets before the table began to divide them once more.
  size_t level() const { return std::bit_floor(buckets_); }
  size_t IndexOf(uint64_t hash) const {
    const size_t index = hash & (2 * level() - 1);
    return index < buckets_ ? index : index - level();
  }
  Node*& Bucket(size_t index) const {
    if (index < kFirst) return segments_[0][index];
    const auto width = static_cast<size_t>(std::bit_width(index / kFirst));
    return segments_[width][index - (kFirst << (width - 1))];
  }

  template <class Alike>
  Links* Find(const Alike& key, uint64_t hash) const {
    if (buckets_ == 0) return const_cast<Links*>(&ends_);
    for (Node* node = Bucket(IndexOf(hash)); node; node = node->next) {
      if (node->hash == hash && Equal()(node->value.first, key)) return node;
    }
    return const_cast<Links*>(&ends_);
  }

  // Adds a bucket, and moves those items of one other bucket there that belong there now.
  void Divide() {
    if (buckets_ == 0) {
      AddSegment(kFirst);
      buckets_ = kFirst;
      return;
    }
    if (buckets_ >= kFirst && std::has_single_bit(buckets_)) AddSegment(buckets_);
    const size_t added = buckets_++, divided = added - std::bit_floor(added);
    Node** to = &Bucket(added);
    for (Node** link = &Bucket(divided); *link; ++divided_) {
      if (IndexOf((*link)->hash) == divided) {
        link = &(*link)->next;
      } else {
        *to = std::exchange(*link, (*link)->next);
        to = &(*to)->next;
      }
    }
    *to = nullptr;
  }
  // The memory is fresh from the system if it is large: no one waits until all of it is zero.
  void AddSegment(size_t count) {
    Segment segment(static_cast<Node**>(std::calloc(count, sizeof(Node*))));
    if (!segment) throw std::bad_alloc();
    segments_.push_back(std::move(segment));
  }

  Links ends_;  // of the list of all items
  std::vector<Segment> segments_;
  size_t buckets_ = 0;
  size_t size_ = 0;
  size_t divided_ = 0;
};

}  // namespace penstock
