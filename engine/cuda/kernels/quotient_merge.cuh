/* One quotient's run and items, merged: what a thread does of a change.
 *
 * K is the type of an item's key. Equal keys without counts stand beside each other; how many there
 * are is found by doubling and halving, since of skewed keys they may be almost all. */
#pragma once

#include "engine/cuda/kernels/quotient.cuh"

/* Items as a thread reads them. */
template <typename K> struct quotient_items {
    const K *keys;
    const uint64_t *counts;
    const uint32_t *indices;
    const uint64_t *values;
    enum hspz_filter_op op;
    unsigned bits; /* of a key, below the quotient */
};

template <typename K>
static __device__ __forceinline__ struct quotient_items<K>
quotient_items_of(const struct hspz_cuda_quotient &q,
                  const struct hspz_cuda_quotient_items &items) {
    struct quotient_items<K> made = {
        (const K *)items.keys, items.counts, items.indices, items.values, items.op, q.remainder_bits
    };
    if (items.op == HSPZ_FILTER_INSERT) {
        made.bits += q.value_bits;
    }
    return made;
}

/* The first of keys[at .. end) that is not below `key`. */
template <typename K>
static __device__ __forceinline__ uint64_t
quotient_lower(const K *keys, uint64_t at, uint64_t end, K key)
{
    while (at < end) {
        const uint64_t middle = at + (end - at) / 2;
        if (keys[middle] < key) {
            at = middle + 1;
        } else {
            end = middle;
        }
    }
    return at;
}

/* Behind the keys that are equal to the one at `at`. */
template <typename K>
static __device__ __forceinline__ uint64_t
quotient_upper(const K *keys, uint64_t at, uint64_t end)
{
    const K key = keys[at];
    uint64_t step = 1;
    while (step < end - at && keys[at + step] == key) {
        step *= 2;
    }
    /* Those up to half a step are equal; the one at the step is not, or is none. */
    uint64_t low = at + step / 2 + 1, high = step < end - at ? at + step : end;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (keys[middle] == key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Distinct items of a quotient, in order. */
template <typename S, typename K> struct quotient_cursor {
    const struct quotient_items<K> &items;
    K quotient;
    uint64_t next, end;
    bool more;
    S low;          /* of the key, below the quotient */
    uint64_t count; /* not 0 */
    uint64_t first; /* of the equal ones */

    __device__ __forceinline__ quotient_cursor(const struct quotient_items<K> &all, uint64_t q,
                                               uint64_t begin, uint64_t behind)
        : items(all), quotient(q), next(begin), end(behind), more(true), low(0), count(0), first(0)
    {
        advance();
    }
    __device__ __forceinline__ void advance()
    {
        do {
            more = next < end && items.keys[next] >> items.bits == quotient;
            if (!more) {
                return;
            }
            first = next;
            low = (S)((uint64_t)items.keys[next] & quotient_low(items.bits));
            if (items.counts != NULL) {
                count = items.counts[next++];
            } else {
                next = quotient_upper(items.keys, next, end);
                count = next - first;
            }
        } while (count == 0);
    }
    /* It has an entry. */
    __device__ __forceinline__ void meet()
    {
    }
    __device__ __forceinline__ enum hspz_filter_op op() const
    {
        return items.op;
    }
    /* As a symbol, of an item that has no value in its key. */
    __device__ __forceinline__ S symbol(unsigned value_bits) const
    {
        const uint64_t value = items.values != NULL ? items.values[items.indices[first]] : 0;
        return (S)((uint64_t)low << value_bits | (value & quotient_low(value_bits)));
    }
};

/* Entries and the sums of their counts, in halves of 32 bits. */
struct quotient_sums {
    uint64_t entries, low, high;

    __device__ __forceinline__ void add(uint64_t count)
    {
        entries++;
        low += count & UINT32_MAX;
        high += count >> 32;
    }
};

/* Adds those of a warp, all of it. */
static __device__ __forceinline__ void
quotient_add_sums(const struct quotient_sums &sums, unsigned long long *entries,
                  unsigned long long *halves)
{
    uint64_t all[3] = {sums.entries, sums.low, sums.high};
    unsigned long long *const to[3] = {entries, &halves[0], &halves[1]};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned with = 16; with > 0; with /= 2) {
            all[i] += __shfl_xor_sync(UINT32_MAX, all[i], (int)with);
        }
        if (threadIdx.x % 32 == 0 && all[i] != 0) {
            atomicAdd(to[i], (unsigned long long)all[i]);
        }
    }
}

/* Slots that what is emitted takes. */
template <typename S> struct quotient_measure {
    uint64_t length;
    struct quotient_sums sums;

    __device__ __forceinline__ void emit(S symbol, uint64_t count)
    {
        length += quotient_length<S>(symbol, count);
        sums.add(count);
    }
};

template <typename S> struct quotient_writer {
    S *to;

    __device__ __forceinline__ void emit(S symbol, uint64_t count)
    {
        to = quotient_put<S>(to, symbol, count);
    }
};

/* ITEM: a cursor. */
template <typename S, typename ITEM, typename OUT>
static __device__ __forceinline__ void
quotient_merge_inserts(quotient_reader<S> &reader, struct quotient_run run, ITEM &item, bool set,
                       OUT &out, struct quotient_sums &gone)
{
    for (uint64_t at = run.begin; at < run.end;) {
        struct quotient_entry<S> old = quotient_next<S>(reader, &at, run.end);
        gone.add(old.count);
        for (; item.more && item.low < old.symbol; item.advance()) {
            out.emit(item.low, set ? 1 : item.count);
        }
        if (item.more && item.low == old.symbol) {
            old.count = set ? 1 : quotient_add(old.count, item.count);
            item.advance();
        }
        out.emit(old.symbol, old.count);
    }
    for (; item.more; item.advance()) {
        out.emit(item.low, set ? 1 : item.count);
    }
}

/* Items without values, which are for all entries of a fingerprint. */
template <typename S, typename ITEM, typename OUT>
static __device__ __forceinline__ void
quotient_merge_others(quotient_reader<S> &reader, struct quotient_run run, ITEM &item,
                      unsigned value_bits, OUT &out, struct quotient_sums &gone)
{
    const enum hspz_filter_op op = item.op();
    bool met = false; /* the item has entries */
    for (uint64_t at = run.begin; at < run.end;) {
        const struct quotient_entry<S> old = quotient_next<S>(reader, &at, run.end);
        const S remainder = (S)(old.symbol >> value_bits);
        uint64_t kept = old.count;
        gone.add(old.count);
        while (item.more && item.low < remainder) {
            if (op == HSPZ_FILTER_INSERT_IF_ABSENT && !met) {
                out.emit(item.symbol(value_bits), 1);
            }
            item.advance();
            met = false;
        }
        if (item.more && item.low == remainder) {
            met = true;
            item.meet();
            if (op == HSPZ_FILTER_DELETE) {
                kept = 0;
            } else if (op == HSPZ_FILTER_DECREMENT) {
                const uint64_t take = item.count < kept ? item.count : kept;
                kept -= take;
                item.count -= take;
            }
        }
        if (kept > 0) {
            out.emit(old.symbol, kept);
        }
    }
    for (; op == HSPZ_FILTER_INSERT_IF_ABSENT && item.more; item.advance()) {
        if (!met) {
            out.emit(item.symbol(value_bits), 1);
        }
        met = false;
    }
}

/* Items begin .. end of the quotient, if any, into its run. */
template <typename S, typename K, typename OUT>
static __device__ __forceinline__ void
quotient_merge(const struct hspz_cuda_quotient &old, struct quotient_run run,
               const struct quotient_items<K> &items, uint64_t quotient, uint64_t begin,
               uint64_t end, OUT &out, struct quotient_sums &gone)
{
    quotient_reader<S> reader(old.symbols);
    quotient_cursor<S, K> item(items, quotient, begin, end);
    if (items.op == HSPZ_FILTER_INSERT) {
        quotient_merge_inserts<S>(reader, run, item, old.set, out, gone);
    } else {
        quotient_merge_others<S>(reader, run, item, old.value_bits, out, gone);
    }
}
