"""What the bodies in `stockroom` do; the demonstration replaces some of them."""

import unittest
from datetime import date

from stockroom.amount import Amount
from stockroom.lot import Lot
from stockroom.order import Order
from stockroom.outlet import Outlet
from stockroom.report import late_orders, lot_line, stock_table
from stockroom.store import Store

MAY, JUNE, JULY = date(2024, 5, 2), date(2024, 6, 3), date(2024, 7, 4)


def store_with_tea() -> Store:
    store = Store("Harbour")
    store.add_item(Lot("tea", 4, Amount(250), JUNE, best_before=date(2025, 6, 1)))
    store.add_item(Lot("tea", 6, Amount(240), MAY, best_before=date(2024, 7, 1)))
    return store


class StoreTest(unittest.TestCase):
    def test_units_leave_the_oldest_lot_first(self):
        store = store_with_tea()
        store.remove_item("tea", 7)
        self.assertEqual([lot.on_hand for lot in store.every_lot()], [0, 3])
        self.assertEqual(store.count_items("tea"), 3)

    def test_more_than_there_is_cannot_be_removed(self):
        with self.assertRaisesRegex(ValueError, "not enough of tea"):
            store_with_tea().remove_item("tea", 11)

    def test_an_article_below_its_minimum_is_to_be_ordered(self):
        store = store_with_tea()
        self.assertEqual(store.items_to_reorder(), [])
        store.set_minimum("tea", 11)
        self.assertTrue(store.is_running_low("tea"))
        self.assertEqual(store.items_to_reorder(), ["tea"])

    def test_value_and_description_add_up(self):
        store = store_with_tea()
        self.assertEqual(store.total_value().minor_units, 4 * 250 + 6 * 240)
        self.assertEqual(store.describe(), "Harbour: 1 articles, 24.40 EUR")

    def test_stale_lots_are_found_and_dropped(self):
        store = store_with_tea()
        self.assertEqual([lot.opened_on for lot in store.expired_items(JULY)], [MAY])
        self.assertEqual(store.oldest_lot("tea").opened_on, MAY)
        store.drop_stale(JULY)
        self.assertEqual(store.oldest_lot("tea").opened_on, JUNE)
        self.assertIsNone(store.oldest_lot("coffee"))


class OutletTest(unittest.TestCase):
    def test_an_outlet_sells_what_it_has(self):
        outlet = Outlet("Market")
        outlet.supplier_codes["tea"] = "T-1"
        outlet.set_minimum("tea", 2)
        outlet.add_item(Lot("tea", 3, Amount(100), MAY, best_before=JUNE))
        self.assertEqual((outlet.name(), outlet.articles()), ("Market", ["tea"]))
        self.assertEqual((outlet.supplier("tea"), outlet.supplier("coffee")), ("T-1", None))
        self.assertEqual((outlet.minimum("tea"), outlet.inventory_value().minor_units), (2, 300))
        self.assertEqual(outlet.sell("tea", 5), 3)
        self.assertFalse(outlet.has_stock("tea"))
        self.assertTrue(outlet.is_empty())
        self.assertEqual(outlet.clear_expired(JULY), 1)
        self.assertEqual(outlet.lots("tea"), [])


class OrderTest(unittest.TestCase):
    def order(self) -> Order:
        order = Order("PO-7", MAY, lead_days=10)
        order.wanted = {"tea": 12}
        order.agreed_prices = {"tea": Amount(230)}
        return order

    def test_an_order_is_late_after_its_due_date_until_it_is_closed(self):
        order = self.order()
        self.assertEqual(order.due_date(), date(2024, 5, 12))
        self.assertEqual(order.age(JUNE), 32)
        self.assertTrue(order.is_late(JUNE))
        self.assertEqual(late_orders([order], JUNE), ["PO-7"])
        order.cancel(JUNE, " out of tea ")
        self.assertFalse(order.is_late(JULY))
        self.assertEqual(order.summary(), "PO-7 of 2024-05-02: out of tea")

    def test_the_cost_is_that_of_the_agreed_prices(self):
        self.assertEqual(self.order().total_cost().as_label(), "27.60 EUR")


class ReportTest(unittest.TestCase):
    def test_lines_name_article_units_and_price(self):
        store = store_with_tea()
        self.assertEqual(lot_line(store.oldest_lot("tea")), "tea: 6 x 2.40 EUR")
        self.assertEqual(stock_table(store), ["tea: 10"])


if __name__ == "__main__":
    unittest.main()
