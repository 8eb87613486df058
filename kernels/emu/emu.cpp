// emu.cpp: runs a launch block by block, a block's threads as fibers.
// Place      The only file with state. A launch runs on the calling thread; several threads may run launches.
// Invariants The outcome of a correct kernel does not depend on the order of lanes and warps: only a missing barrier
//            makes it, which is what running a test in every order shows.
#include "emu/emu.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "emu/shim.hpp"
#include "emu/switch.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emu {

thread_local Self self;

namespace {

constexpr size_t STACK_BYTES = 256 << 10;
constexpr u64 CANARY = 0x5ca1ab1e0ddba115ull;

enum class State { Ready, AtWarp, AtBlock, Done };

struct Copy {
    u8* to;
    const u8* from;
    bool wanted;
    u32 group;
};

struct Fiber {
    void* sp = nullptr;
    char* stack = nullptr;
    State state = State::Done;
    WarpOp op = nullptr;
    void* mine = nullptr;
    u32 n_groups = 0;
    std::vector<Copy> copies;
};

struct Machine {
    const EmuLaunch* launch = nullptr;
    const EmuKernel* kernel = nullptr;
    std::vector<Fiber> fibers;
    std::vector<u8> shared_room;
    void* scheduler_sp = nullptr;
    Fiber* current = nullptr;
    /// The buffer that the last access fell into: the next one usually does too.
    EmuBuffer last = {nullptr, 0};
    bool failed = false;
    char message[512] = {};
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    const void* host_stack = nullptr;
    size_t host_bytes = 0;
#endif

    ~Machine() {
        for (Fiber& f : fibers) std::free(f.stack);
    }
};

thread_local Machine machine;

/// Go on with the scheduler.
void leave() {
    Machine& m = machine;
    Fiber* f = m.current;
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(f->state == State::Done ? nullptr : &fake, m.host_stack, m.host_bytes);
    tether_emu_switch(&f->sp, m.scheduler_sp);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    tether_emu_switch(&f->sp, m.scheduler_sp);
#endif
}

/// End the launch with a message that says which thread it is about.
[[gnu::format(printf, 1, 2)]] void fail(const char* format, ...) {
    Machine& m = machine;
    if (!m.failed) {
        char what[320];
        va_list args;
        va_start(args, format);
        std::vsnprintf(what, sizeof what, format, args);
        va_end(args);
        std::snprintf(m.message, sizeof m.message, "%s, block (%u, %u, %u), thread %u: %s", m.kernel->name, self.block[0],
                      self.block[1], self.block[2], self.thread, what);
        m.failed = true;
    }
}

/// The same from inside a fiber, which is never run again.
void stop() {
    machine.current->state = State::Done;
    leave();
    std::abort();
}

void fiber_main(void*) {
    Machine& m = machine;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &m.host_stack, &m.host_bytes);
#endif
    m.kernel->run(m.launch->params);
    if (!m.current->copies.empty()) fail("ends with asynchronous copies that were not waited for");
    m.current->state = State::Done;
    leave();
    std::abort();
}

void run_fiber(u32 thread) {
    Machine& m = machine;
    Fiber& f = m.fibers[thread];
    m.current = &f;
    self.thread = thread;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&m.fake_stack, f.stack, STACK_BYTES);
    tether_emu_switch(&m.scheduler_sp, f.sp);
    __sanitizer_finish_switch_fiber(m.fake_stack, nullptr, nullptr);
#else
    tether_emu_switch(&m.scheduler_sp, f.sp);
#endif
    if (*reinterpret_cast<u64*>(f.stack) != CANARY) {
        std::fprintf(stderr, "emulator: a fiber's stack overflowed in %s\n", m.kernel->name);
        std::abort();
    }
}

/// The i-th of n in an order.
u32 in_order(u32 order, u32 i, u32 n) {
    if (order == 1) return n - 1 - i;
    if (order == 2) return (i * 13 + 5) % n;  // a permutation of 32 lanes; see warp_in_order for other n
    return i;
}

u32 warp_in_order(u32 order, u32 i, u32 n) {
    if (order != 2) return in_order(order, i, n);
    return i % 2 == 0 ? n - 1 - i / 2 : i / 2;  // last, first, last but one, second, …
}

/// Run a warp until each of its lanes waits at the block's barrier or has ended.
bool run_warp(u32 warp) {
    Machine& m = machine;
    const u32 order = m.launch->order;
    bool progressed = false;
    for (;;) {
        bool ran = false;
        for (u32 i = 0; i < 32; ++i) {
            const u32 thread = 32 * warp + in_order(order, i, 32);
            if (m.fibers[thread].state != State::Ready) continue;
            run_fiber(thread);
            if (m.failed) return false;
            ran = true;
        }
        progressed |= ran;
        u32 n_ready = 0, n_waiting = 0;
        void* lanes[32];
        WarpOp op = nullptr;
        bool same = true;
        for (u32 lane = 0; lane < 32; ++lane) {
            const Fiber& f = m.fibers[32 * warp + lane];
            n_ready += f.state == State::Ready;
            if (f.state != State::AtWarp) continue;
            same = same && (op == nullptr || op == f.op);
            op = f.op;
            lanes[lane] = f.mine;
            ++n_waiting;
        }
        if (n_ready > 0) continue;  // waited for copies
        if (n_waiting == 0) return progressed;
        if (n_waiting < 32 || !same) {
            self.thread = 32 * warp;
            fail("%u of 32 lanes of the warp came to a collective operation%s", n_waiting,
                 same ? "" : ", and not to the same one");
            return false;
        }
        op(lanes);
        for (u32 lane = 0; lane < 32; ++lane) m.fibers[32 * warp + lane].state = State::Ready;
    }
}

void run_block() {
    Machine& m = machine;
    const u32 n_threads = m.kernel->n_threads, n_warps = n_threads / 32;
    std::memset(self.shared, 0xff, self.n_shared);
    for (u32 i = 0; i < n_threads; ++i) {
        Fiber& f = m.fibers[i];
        f.state = State::Ready;
        f.n_groups = 0;
        f.copies.clear();
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(f.stack, STACK_BYTES);  // frames of a fiber that ended in the middle
#endif
        f.sp = prepare_stack(f.stack + STACK_BYTES, fiber_main, nullptr);
    }
    for (;;) {
        bool progressed = false;
        for (u32 i = 0; i < n_warps; ++i) {
            progressed |= run_warp(warp_in_order(m.launch->order, i, n_warps));
            if (m.failed) return;
        }
        u32 n_done = 0, n_at_block = 0;
        for (u32 i = 0; i < n_threads; ++i) {
            n_done += m.fibers[i].state == State::Done;
            n_at_block += m.fibers[i].state == State::AtBlock;
        }
        if (n_done == n_threads) return;
        if (n_done + n_at_block < n_threads || !progressed) {
            fail("no thread can go on");
            return;
        }
        if (n_done > 0) {
            fail("%u threads wait at a barrier that %u threads have passed by", n_at_block, n_done);
            return;
        }
        for (u32 i = 0; i < n_threads; ++i) m.fibers[i].state = State::Ready;
    }
}

void prepare_fibers(u32 n_threads) {
    Machine& m = machine;
    while (m.fibers.size() < n_threads) {
        Fiber f;
        f.stack = static_cast<char*>(std::aligned_alloc(64, STACK_BYTES));
        if (f.stack == nullptr) std::abort();
        *reinterpret_cast<u64*>(f.stack) = CANARY;
        m.fibers.push_back(std::move(f));
    }
}

}  // namespace

void check_access(const void* p, size_t n_bytes, size_t alignment, bool is_write) {
    Machine& m = machine;
    const u8* at = static_cast<const u8*>(p);
    const auto is_in = [&](const u8* start, size_t n) {
        return at >= start && n >= n_bytes && static_cast<size_t>(at - start) <= n - n_bytes;
    };
    if (reinterpret_cast<uintptr_t>(p) % alignment != 0) {
        fail("%s of %zu bytes at an address that is not a multiple of %zu", is_write ? "write" : "read", n_bytes, alignment);
        stop();
    }
    if (is_in(m.last.start, m.last.n_bytes) || is_in(self.shared, self.n_shared)) return;
    size_t low = 0, high = m.launch->n_buffers;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (m.launch->buffers[middle].start <= at) low = middle + 1;
        else high = middle;
    }
    const EmuBuffer* buffer = low > 0 ? &m.launch->buffers[low - 1] : nullptr;
    if (buffer != nullptr && is_in(buffer->start, buffer->n_bytes)) {
        m.last = *buffer;
        return;
    }
    // Which buffer was meant: the one that ends, or the shared memory that begins, least far away.
    const char* verb = is_write ? "write" : "read";
    const auto past_shared = at - self.shared;
    const bool near_shared = self.n_shared > 0 && past_shared > -4096 && past_shared < static_cast<ptrdiff_t>(self.n_shared) + 4096;
    if (near_shared) {
        fail("%s of %zu bytes at byte %td of %u bytes of shared memory", verb, n_bytes, past_shared, self.n_shared);
    } else if (buffer != nullptr) {
        fail("%s of %zu bytes at byte %td of a buffer of %zu bytes", verb, n_bytes, at - buffer->start, buffer->n_bytes);
    } else {
        fail("%s of %zu bytes at %p, which is in no buffer", verb, n_bytes, p);
    }
    stop();
}

void meet_warp(WarpOp op, void* mine) {
    Fiber* f = machine.current;
    f->op = op;
    f->mine = mine;
    f->state = State::AtWarp;
    leave();
}

void meet_block() {
    machine.current->state = State::AtBlock;
    leave();
}

void start_copy(void* to_shared, const void* from, bool wanted) {
    u8* to = static_cast<u8*>(to_shared);
    check_access(to, 16, 16, true);
    if (to < self.shared || to >= self.shared + self.n_shared) {
        fail("an asynchronous copy to memory that is not shared");
        stop();
    }
    if (wanted) check_access(from, 16, 16, false);
    Fiber* f = machine.current;
    f->copies.push_back({to, static_cast<const u8*>(from), wanted, f->n_groups});
}

void commit_copies() { ++machine.current->n_groups; }

void wait_copies(u32 n_pending) {
    Fiber* f = machine.current;
    size_t n_left = 0;
    for (const Copy& c : f->copies) {
        if (c.group + n_pending >= f->n_groups) {
            f->copies[n_left++] = c;
        } else if (c.wanted) {
            std::memcpy(c.to, c.from, 16);
        } else {
            std::memset(c.to, 0, 16);
        }
    }
    f->copies.resize(n_left);
    leave();  // still ready: others run first
}

void op_sync(void* const (&)[32]) {}

void op_shuffle_xor(void* const (&lanes)[32]) {
    u32 values[32];
    for (u32 i = 0; i < 32; ++i) values[i] = static_cast<Shuffle*>(lanes[i])->value;
    for (u32 i = 0; i < 32; ++i) {
        Shuffle* s = static_cast<Shuffle*>(lanes[i]);
        s->value = values[(i ^ s->arg) & 31];
    }
}

void op_shuffle(void* const (&lanes)[32]) {
    u32 values[32];
    for (u32 i = 0; i < 32; ++i) values[i] = static_cast<Shuffle*>(lanes[i])->value;
    for (u32 i = 0; i < 32; ++i) {
        Shuffle* s = static_cast<Shuffle*>(lanes[i]);
        s->value = values[s->arg & 31];
    }
}

namespace {

template <bool TRANSPOSED> void matrix4(void* const (&lanes)[32]) {
    for (u32 i = 0; i < 4; ++i) {
        u16 rows[8][8];
        for (u32 j = 0; j < 8; ++j) std::memcpy(rows[j], static_cast<Matrix4*>(lanes[8 * i + j])->row, 16);
        for (u32 lane = 0; lane < 32; ++lane) {
            const u32 g = lane / 4, t = lane % 4;
            const u32 low = TRANSPOSED ? rows[2 * t][g] : rows[g][2 * t];
            const u32 high = TRANSPOSED ? rows[2 * t + 1][g] : rows[g][2 * t + 1];
            static_cast<Matrix4*>(lanes[lane])->r[i] = low | high << 16;
        }
    }
}

/// Sums of 16 exact products are made in f64 and rounded once; hardware rounds or cuts somewhere in between.
template <class Convert> void mma(void* const (&lanes)[32], Convert convert) {
    float a[16][16], b[8][16];
    for (u32 lane = 0; lane < 32; ++lane) {
        const Mma* m = static_cast<Mma*>(lanes[lane]);
        const u32 g = lane / 4, t = lane % 4;
        for (u32 i = 0; i < 4; ++i) {
            const u32 row = g + 8 * (i % 2), col = 2 * t + 8 * (i / 2);
            a[row][col] = convert(static_cast<u16>(m->a[i]));
            a[row][col + 1] = convert(static_cast<u16>(m->a[i] >> 16));
        }
        for (u32 i = 0; i < 2; ++i) {
            b[g][2 * t + 8 * i] = convert(static_cast<u16>(m->b[i]));
            b[g][2 * t + 8 * i + 1] = convert(static_cast<u16>(m->b[i] >> 16));
        }
    }
    for (u32 lane = 0; lane < 32; ++lane) {
        float* c = static_cast<Mma*>(lanes[lane])->c;
        for (u32 i = 0; i < 4; ++i) {
            const float* row = a[lane / 4 + 8 * (i / 2)];
            const float* col = b[2 * (lane % 4) + i % 2];
            double sum = c[i];
            for (u32 k = 0; k < 16; ++k) sum += static_cast<double>(row[k]) * col[k];
            c[i] = static_cast<float>(sum);
        }
    }
}

}  // namespace

void op_matrix4(void* const (&lanes)[32]) { matrix4<false>(lanes); }
void op_matrix4_transposed(void* const (&lanes)[32]) { matrix4<true>(lanes); }
void op_mma_bf16(void* const (&lanes)[32]) {
    mma(lanes, [](u16 bits) { return dev::bits_float(static_cast<u32>(bits) << 16); });
}
void op_mma_f16(void* const (&lanes)[32]) {
    mma(lanes, [](u16 bits) { return f16_float(bits); });
}

float f16_float(u16 bits) {
    const u32 sign = static_cast<u32>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return dev::bits_float(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) {
        const float v = std::ldexp(static_cast<float>(fraction), -24);
        return sign != 0 ? -v : v;
    }
    return dev::bits_float(sign | (exponent + 112) << 23 | fraction << 13);
}

u16 float_f16(float v) {
    const u32 bits = dev::float_bits(v);
    const u16 sign = static_cast<u16>(bits >> 16 & 0x8000);
    const float size = std::fabs(v);
    if (v != v) return sign | 0x7fff;
    if (size >= 65520.0f) return sign | 0x7c00;
    if (size < 6.103515625e-5f) return sign | static_cast<u16>(std::nearbyint(std::ldexp(size, 24)));
    const u32 rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
    return sign | static_cast<u16>((rounded >> 13) - (112 << 10));
}

}  // namespace emu

int tether_emu_launch(const EmuLaunch* launch, char* message, size_t n_message) {
    using namespace emu;
    Machine& m = machine;
    if (launch->kernel >= N_EMU_KERNELS || EMU_KERNELS[launch->kernel].n_params != launch->n_params) {
        std::snprintf(message, n_message, "kernel %u does not take %zu bytes of parameters", launch->kernel, launch->n_params);
        return 1;
    }
    m.launch = launch;
    m.kernel = &EMU_KERNELS[launch->kernel];
    m.failed = false;
    m.last = {nullptr, 0};
    prepare_fibers(m.kernel->n_threads);
    m.shared_room.resize(launch->n_shared + 128);
    self.shared = m.shared_room.data() + (128 - reinterpret_cast<uintptr_t>(m.shared_room.data()) % 128);
    self.n_shared = launch->n_shared;
    self.n_threads = m.kernel->n_threads;
    for (int i = 0; i < 3; ++i) self.grid[i] = launch->grid[i];
    for (u32 z = 0; z < launch->grid[2] && !m.failed; ++z)
        for (u32 y = 0; y < launch->grid[1] && !m.failed; ++y)
            for (u32 x = 0; x < launch->grid[0] && !m.failed; ++x) {
                self.block[0] = x, self.block[1] = y, self.block[2] = z;
                run_block();
            }
    if (!m.failed) return 0;
    std::snprintf(message, n_message, "%s", m.message);
    return 1;
}
