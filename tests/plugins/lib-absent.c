/* Linked against, and not there when it is needed. */

__attribute__((visibility("default"))) int usher_test_absent(void);

int usher_test_absent(void)
{
	return 0;
}
