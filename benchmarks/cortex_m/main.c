/* Runs an exported system on a bare Cortex-M. Prints through semihosting, for every input vector, one line of hexadecimal words:
 * the output and its left and right ends (for every output), SysTick ticks of REPEATS predictions, and ticks of the same number
 * of empty calls. The last line is the largest stack of a prediction in bytes. vectors.h has the inputs; T is their type. */
#include <stdint.h>
#include "vectors.h"

extern void model_predict(const T *x, T *y);
extern void model_predict_interval(const T *x, T *low, T *high);
extern void model_nothing(const T *x, T *y);
int main(void);
void reset(void);

extern uint32_t _stack_top;

#define SYSTICK_CONTROL (*(volatile uint32_t *)0xE000E010u)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xE000E014u)
#define SYSTICK_VALUE (*(volatile uint32_t *)0xE000E018u)
#define CPACR (*(volatile uint32_t *)0xE000ED88u)

static int semihost(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void fault(void)
{
    semihost(0x04, "FAULT\n");
    semihost(0x18, (const void *)0x20023); /* internal error: QEMU exits with a nonzero code */
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &_stack_top, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, fault,
};

void reset(void)
{
    CPACR |= 0xFu << 20; /* enables the floating-point unit, if any */
    __asm__ volatile("dsb\n isb");
    (void)main();
    semihost(0x18, (const void *)0x20026); /* application exit */
    for (;;) {
    }
}

static void print_word(uint32_t word)
{
    char text[10];
    int i;
    for (i = 0; i < 8; ++i) {
        text[i] = "0123456789abcdef"[(word >> (28 - 4 * i)) & 15u];
    }
    text[8] = ' ';
    text[9] = 0;
    semihost(0x04, text);
}

static void print_value(T value)
{
    union {
        T value;
        uint32_t word;
    } both = {0};
    both.value = value;
    print_word(both.word);
}

static uint32_t ticks(void (*called)(const T *, T *), const T *x, T *y)
{
    uint32_t before;
    int i;
    before = SYSTICK_VALUE;
    for (i = 0; i < REPEATS; ++i) {
        called(x, y);
    }
    return (before - SYSTICK_VALUE) & 0xFFFFFFu; /* it counts down */
}

#define FILLED 4096

/* Fills the unused stack with a pattern, calls, and finds the deepest word that changed. Reads below the stack pointer. */
static uint32_t stack_bytes(const T *x, T *y)
{
    volatile uint32_t *top;
    int i;
    __asm__ volatile("mov %0, sp" : "=r"(top));
    for (i = 1; i <= FILLED; ++i) {
        *(top - i) = 0xA5A5A5A5u;
    }
    model_predict(x, y);
    for (i = FILLED; i > 0 && *(top - i) == 0xA5A5A5A5u; --i) {
    }
    return 4u * (uint32_t)i;
}

int main(void)
{
    T y[OUTPUTS], low[OUTPUTS], high[OUTPUTS];
    uint32_t deepest = 0;
    int row, k;
    SYSTICK_RELOAD = 0xFFFFFFu;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = 5u; /* enabled, with the clock of the processor */
    for (row = 0; row < ROWS; ++row) {
        const uint32_t stack = stack_bytes(inputs[row], y);
        deepest = stack > deepest ? stack : deepest;
        model_predict(inputs[row], y);
        model_predict_interval(inputs[row], low, high);
        for (k = 0; k < OUTPUTS; ++k) {
            print_value(y[k]);
            print_value(low[k]);
            print_value(high[k]);
        }
        print_word(ticks(model_predict, inputs[row], y));
        print_word(ticks(model_nothing, inputs[row], y));
        semihost(0x04, "\n");
    }
    print_word(deepest);
    semihost(0x04, "\n");
    return 0;
}
